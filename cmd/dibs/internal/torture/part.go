package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/session"
)

// Part says what one process of a run does. It is passed on the command line.
type Part struct {
	Producer bool   `json:"producer,omitempty"` // false: the process is a worker
	Name     string `json:"name"`               // the same for all processes of a seat
	Client   string `json:"client"`             // the process' name in the history
	Seat     int    `json:"seat"`               // its number among all workers or all producers, from 0
	Of       int    `json:"of"`                 // how many workers or producers there are
	Seed     uint64 `json:"seed"`
	Dir      string `json:"dir"`     // the folder of the history
	Effects  string `json:"effects"` // the table for effects

	Demo bool `json:"demo,omitempty"` // the process is a worker of a demo

	Adopted string `json:"adopted,omitempty"` // the mapping's file, if the process works on a copy of an adopted table
	Resumes bool   `json:"resumes,omitempty"` // the table can tell which worker holds a row

	// Lines handles the jobs of some of the workers by processes that stay; nil: none do.
	Lines dibs.Handler `json:"-"`
}

// client is one process of a run.
type client struct {
	Part
	raw   admin.Database // does not record its calls
	store admin.Database // records its calls
	rec   *history.Recorder
	sql   *sql.DB

	overHTTP admin.Database // records its calls, and makes some through the server of another process
	recent   recent

	mu sync.Mutex
	n  int // how many keys and random sources the process has made
}

// Play plays the part on the database at rawURL, until ctx ends. It waits for a database that is
// unavailable when open opens it: the server may just have been killed.
func (p Part) Play(ctx context.Context, rawURL string, open func(context.Context) (admin.Database, error)) error {
	for {
		db, err := open(ctx)
		switch {
		case err == nil:
			return errors.Join(p.run(ctx, db, rawURL), db.Close())
		case ctx.Err() != nil:
			return nil // told to end before it began
		case !errors.Is(err, dibs.ErrUnavailable):
			return err
		}
		wait(ctx, 50*time.Millisecond)
	}
}

func (p Part) run(ctx context.Context, db admin.Database, rawURL string) error {
	rec, err := history.OpenIn(p.Dir, p.Client)
	if err != nil {
		return err
	}
	c := &client{Part: p, raw: db, store: history.Wrap(db, rec), rec: rec}
	if p.Demo {
		return errors.Join(c.workDemo(ctx), rec.Close())
	}
	server := (p.Seat + 1) % p.Of
	if p.Producer {
		server = 0
	}
	c.overHTTP = history.Wrap(c.remote(server), rec)
	if p.Adopted != "" {
		return errors.Join(c.workAdopted(ctx), rec.Close())
	}
	err = withSQL(db, rawURL, func(pool *sql.DB) error {
		c.sql = pool
		if p.Producer {
			return c.produce(ctx)
		}
		return c.work(ctx)
	})
	return errors.Join(err, rec.Close())
}

// withSQL runs f with database/sql connections to the database.
func withSQL(db admin.Database, rawURL string, f func(*sql.DB) error) error {
	if own, ok := db.(interface{ DB() *sql.DB }); ok { // on SQLite, its connections take turns with the store's
		return f(own.DB())
	}
	pool, _, err := session.OwnDB(context.Background(), rawURL)
	if pool == nil { // with a pool, an error means only that the server is unreachable now
		return err
	}
	pool.SetMaxOpenConns(sqlConns)
	return errors.Join(f(pool), pool.Close())
}

// nextNumber returns a number that is unique in the process.
func (c *client) nextNumber() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// newRand returns a random source for one goroutine.
func (c *client) newRand() *rand.Rand { return rand.New(rand.NewPCG(c.Seed, uint64(c.nextNumber()))) }

// inTx runs f in a database/sql transaction. It rolls back if f fails, and sometimes if it
// does not. It returns whether the transaction is certainly committed; otherwise there
// need not be an error.
func (c *client) inTx(ctx context.Context, rng *rand.Rand, f func(*sql.Tx, dibs.Tx) error) (bool, error) {
	t, err := c.sql.BeginTx(ctx, nil)
	if err != nil {
		return false, nil // the transaction has not begun
	}
	id, tx := c.rec.NewTx(), c.dibsTx(t)
	if rng.IntN(4) == 0 {
		if err = c.misuse(ctx, rng, t, tx, id); rng.IntN(2) == 0 {
			tx = c.dibsTx(t) // another dibs.Tx for the same transaction
		}
	}
	if err == nil {
		err = f(t, history.WrapTx(tx, c.rec, id))
	}
	if err != nil || rng.IntN(8) == 0 {
		_ = c.rec.Rollback(id, t.Rollback) // without a commit, nothing takes effect in any case
		return false, unexpected(err)
	}
	return c.rec.Commit(id, t.Commit) == nil, nil
}

func (c *client) dibsTx(t *sql.Tx) dibs.Tx {
	return c.raw.(interface{ SQLTx(dibs.SQLTx) dibs.Tx }).SQLTx(t)
}

// effect writes a job's effect, which must take place exactly once.
func (c *client) effect(ctx context.Context, t *sql.Tx, job int64) error {
	if _, err := t.ExecContext(ctx, fmt.Sprintf("insert into %s (job) values (%d)", c.Effects, job)); err != nil {
		return errNoEffect
	}
	return nil
}

// errNoEffect says that a statement of the test failed in a transaction, for any reason. The
// transaction is then rolled back.
var errNoEffect = errors.New("effect not written")

// unexpected returns nil for errors that the faults explain: a lost lease, a database that
// cannot be reached, the end of a context. It returns other errors as they are.
func unexpected(err error) error {
	if errors.Is(err, dibs.ErrLeaseLost) || errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, errNoEffect) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// makeCall makes a call, sometimes with such a short timeout that the answer comes too late. It
// returns whether the call succeeded, and an error only if the faults do not explain it.
func makeCall(ctx context.Context, rng *rand.Rand, call func(context.Context) error) (bool, error) {
	if rng.IntN(200) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		defer stop()
	}
	err := call(ctx)
	if err != nil && !errors.Is(err, dibs.ErrLeaseLost) {
		wait(ctx, 20*time.Millisecond) // the database may be away
	}
	return err == nil, unexpected(err)
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// runAll runs all functions at the same time. It ends their context when one fails, and
// returns all errors.
func runAll(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, f := range all {
		group.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// key returns the key for a new job.
func (c *client) key() string { return fmt.Sprintf("%s-%d", c.Client, c.nextNumber()) }
