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
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/history"
	"github.com/dibs-queue/dibs/internal/session"
)

// Part is what one process of a run does. It is passed on the command line.
type Part struct {
	Producer bool   `json:"producer,omitempty"` // else a worker
	Name     string `json:"name"`               // the same for all processes of a seat
	Client   string `json:"client"`             // its own name in the history
	Seat     int    `json:"seat"`               // its number among the parts of its kind, from 0
	Of       int    `json:"of"`                 // how many of its kind there are
	Seed     uint64 `json:"seed"`
	Dir      string `json:"dir"`     // the folder of the history
	Effects  string `json:"effects"` // the table for effects

	Adopted string `json:"adopted,omitempty"` // the mapping of the copy of an adopted table that it works on
	Resumes bool   `json:"resumes,omitempty"` // the table tells whose rows are whose
}

// client is a process of a run and what it works with.
type client struct {
	Part
	raw   dibs.Database // unrecorded
	store dibs.Database // recorded
	rec   *history.Recorder
	sql   *sql.DB

	mu sync.Mutex
	n  int // how many keys and random sources it has made
}

// Run plays the part on the database that rawURL names, until ctx ends.
func (p Part) Run(ctx context.Context, db dibs.Database, rawURL string) error {
	rec, err := history.OpenIn(p.Dir, p.Client)
	if err != nil {
		return err
	}
	c := &client{Part: p, raw: db, store: history.Wrap(db, rec), rec: rec}
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
func withSQL(db dibs.Database, rawURL string, f func(*sql.DB) error) error {
	if own, ok := db.(interface{ DB() *sql.DB }); ok { // SQLite's, which take turns with the store's
		return f(own.DB())
	}
	pool, _, err := session.OwnDB(context.Background(), rawURL)
	if pool == nil { // else the server may be away, as it is now and then
		return err
	}
	pool.SetMaxOpenConns(ofSQL)
	return errors.Join(f(pool), pool.Close())
}

// next numbers keys and random sources.
func (c *client) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// dice is a random source for one goroutine.
func (c *client) dice() *rand.Rand { return rand.New(rand.NewPCG(c.Seed, uint64(c.next()))) }

// inTx runs f in a database/sql transaction, and rolls back if f fails or chance
// has it so. It returns whether the transaction is committed for certain; that it is
// not, is not an error.
func (c *client) inTx(ctx context.Context, rng *rand.Rand, f func(*sql.Tx, dibs.Tx) error) (bool, error) {
	t, err := c.sql.BeginTx(ctx, nil)
	if err != nil {
		return false, nil // nothing has happened
	}
	id, tx := c.rec.NewTx(), c.txOf(t)
	if rng.IntN(4) == 0 {
		if err = c.stray(ctx, rng, t, tx, id); rng.IntN(2) == 0 {
			tx = c.txOf(t) // another of the same transaction
		}
	}
	if err == nil {
		err = f(t, history.WrapTx(tx, c.rec, id))
	}
	if err != nil || rng.IntN(8) == 0 {
		_ = c.rec.Rollback(id, t.Rollback) // what was not committed is gone in any case
		return false, expected(err)
	}
	return c.rec.Commit(id, t.Commit) == nil, nil
}

func (c *client) txOf(t *sql.Tx) dibs.Tx {
	return c.raw.(interface{ SQLTx(checks.SQLTx) dibs.Tx }).SQLTx(t)
}

// effect writes a job's effect, which has to happen exactly once.
func (c *client) effect(ctx context.Context, t *sql.Tx, job int64) error {
	if _, err := t.ExecContext(ctx, "insert into "+c.Effects+" (job) values ($1)", job); err != nil {
		return errNoEffect
	}
	return nil
}

// errNoEffect: an effect could not be written. Why does not matter: the transaction
// is rolled back.
var errNoEffect = errors.New("effect not written")

// expected returns the errors that must not be: the faults explain lost leases, a
// database that cannot be reached, and nothing else.
func expected(err error) error {
	if errors.Is(err, dibs.ErrLeaseLost) || errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, errNoEffect) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// ask makes a call, now and then with so little patience that its answer is not
// awaited. It says whether it was answered; an error is one that must not be.
func ask(ctx context.Context, rng *rand.Rand, call func(context.Context) error) (bool, error) {
	if rng.IntN(200) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		defer stop()
	}
	err := call(ctx)
	if err != nil && !errors.Is(err, dibs.ErrLeaseLost) {
		wait(ctx, 20*time.Millisecond) // the database may be away
	}
	return err == nil, expected(err)
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

// together runs all of the functions, ends their context when one fails, and returns
// all errors.
func together(ctx context.Context, all ...func(context.Context) error) error {
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

// key is a new job's.
func (c *client) key() string { return fmt.Sprintf("%s-%d", c.Client, c.next()) }
