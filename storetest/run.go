// Package storetest tests what every store promises. The same tests run on each database,
// called from a test in the database's package:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.SQLite, func(t testing.TB) storetest.Setup { ... })
//	}
//
// Each test has a fresh database, runs in parallel with the others, and ends with
// the consistency check. Tests wait for events in the database, never for a fixed
// time, and let time pass in it ([Setup.Pass]) rather than wait for it. Random tests log their seed; DIBS_TEST_SEED=n repeats one.
package storetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Setup is one fresh, empty database.
type Setup struct {
	// Store is a store on the database.
	Store admin.Database
	// Another opens one more store on the same database, with its own connections, like
	// another process. The cleanup of t closes it.
	Another func(t testing.TB) admin.Database
	// Begin holds a function for each of Features.Transactions that begins such a transaction.
	Begin map[string]Begin
	// Pass lets time pass: it subtracts d from every time in the database, and all stores on it
	// forget the times that they remember. If it is nil, tests wait instead.
	Pass func(ctx context.Context, d time.Duration) error
	// Conflicts says that a caller's transaction may fail with dibs.ErrUnavailable, as others have written the same rows on another
	// node of a cluster.
	Conflicts bool
}

// Begin begins a caller's transaction on the database of a Setup.
type Begin func(ctx context.Context) (Tx, error)

// Tx is a caller's transaction, with the calls of the store and of the caller.
type Tx struct {
	dibs.Tx
	Again    func() dibs.Tx                                       // makes another dibs.Tx for the same transaction
	Exec     func(ctx context.Context, query string) error        // runs a statement
	Count    func(ctx context.Context, query string) (int, error) // reads one number
	Commit   func() error
	Rollback func() error
	Break    func() error // closes the connection without a rollback, like a crash
}

// Maker makes a fresh, empty database, which is removed with t.
type Maker func(t testing.TB) Setup

// onlyQueries hides all methods of a transaction except those of dibs.SQLTx.
type onlyQueries struct{ dibs.SQLTx }

// SQL returns the Begin for callers who use database/sql or a library on top of it. Its Again
// passes only the methods of dibs.SQLTx on, which all such libraries have.
func SQL(db *sql.DB, wrap func(dibs.SQLTx) dibs.Tx) Begin {
	return func(ctx context.Context) (Tx, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return Tx{}, err
		}
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return Tx{}, errors.Join(err, conn.Close())
		}
		return Tx{
			Tx:    wrap(tx),
			Again: func() dibs.Tx { return wrap(onlyQueries{tx}) },
			Exec: func(ctx context.Context, query string) error {
				_, err := tx.ExecContext(ctx, query)
				return err
			},
			Count: func(ctx context.Context, query string) (n int, err error) {
				return n, tx.QueryRowContext(ctx, query).Scan(&n)
			},
			Commit:   func() error { return errors.Join(tx.Commit(), conn.Close()) },
			Rollback: func() error { return errors.Join(tx.Rollback(), conn.Close()) },
			Break: func() error {
				err := conn.Raw(func(c any) error { return c.(driver.Conn).Close() })
				_ = tx.Rollback() // it fails, but database/sql then forgets the transaction
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
				return err
			},
		}, nil
	}
}

// test is one test: a testing.T with a fresh database.
type test struct {
	*testing.T
	Features
	Setup
	db    admin.Database  // Setup.Store
	ctx   context.Context // ends with the test, at the latest after patience
	begin Begin           // begins a transaction of the kind that the case runs with
	rec   *history.Recorder
	meet  bool // goroutines meet in the case

	passed time.Duration // the time that the test has let pass
	open   atomic.Int32  // transactions of beginTx that have not ended: their locks would stop a change of times
}

// goroutines fails a case in which goroutines meet and which make test does not run under the race detector.
func (t *test) goroutines() {
	t.Helper()
	if !t.meet {
		t.Error("goroutines meet in this case: name it under raced in its chapter")
	}
}

// patience is how long a test waits for something that must happen. It is long enough even
// for a busy machine.
const patience = 10 * time.Minute

// promptly is the time in which due or abandoned jobs must start: the promised 2 s, and more
// for a busy machine, on which an adopted table is swept every 10 s.
const promptly = 2*time.Second + 13*time.Second

// oneCase is one test of the suite. Its name is a sentence.
type oneCase struct {
	name string
	run  func(*test)
}

// chapter groups the cases of one verb or topic.
type chapter struct {
	name  string
	cases []oneCase
	tx    bool // run each case for every kind of transaction
	races bool // goroutines meet in all cases of the chapter; otherwise only in those named in raced
	raced []string
}

func chapters() []chapter {
	return []chapter{
		{name: "enqueue", cases: enqueueCases, raced: []string{"concurrent batches stay whole and do not mix", "a bad batch spoils nobody else's"}},
		{name: "claim", cases: claimCases},
		{name: "due", cases: dueCases},
		{name: "extend", cases: extendCases},
		{name: "progress", cases: progressCases, raced: []string{"a worker writes the last progress of each handler, however long the lease"}},
		{name: "finish", cases: finishCases},
		{name: "add", cases: addCases, raced: []string{"of two that finish at once one adds", "a handler adds jobs, a failed one does not, a repeated one adds them once"}},
		{name: "tx add", cases: txAddCases, tx: true},
		{name: "fence", cases: fenceCases, raced: []string{"of two that finish at once one is refused"}},
		{name: "retry", cases: retryCases},
		{name: "resume", cases: resumeCases, raced: []string{"of two that resume at once one gets each job"}},
		{name: "sweep", cases: sweepCases, raced: []string{"sweeps at once find each thing once"}},
		{name: "tx", cases: txCases, tx: true, raced: []string{"effects happen exactly once although two run the job at once"}},
		{name: "middleware", cases: middlewareCases, tx: true, races: true},
		{name: "steps", cases: stepCases, raced: []string{"a worker does each step once, whatever its attempts end with"}},
		{name: "txsteps", cases: txStepCases, tx: true, raced: []string{"a worker has the effect of each step once"}},
		{name: "txclaim", cases: txClaimCases, tx: true, races: true},
		{name: "twoagents", cases: twoAgentCases, tx: true, races: true},
		{name: "groups", cases: groupCases},
		{name: "grouplimits", cases: groupLimitCases},
		{name: "fair", cases: fairCases, raced: []string{"many claimers start no group's jobs far ahead of the others'", "a job that is alone in its group waits for its turn only, whoever claims", "a job that is alone in its group waits for its turn only, beside groups with many places"}},
		{name: "queues", cases: queueCases, raced: []string{"no claim that starts after a pause gets jobs", "settings changed together are all changed"}},
		{name: "delete queue", cases: deleteQueueCases, raced: []string{"no job is lost that is enqueued while its queue is deleted"}},
		{name: "concurrency", cases: concurrencyCases, races: true},
		{name: "rates", cases: rateCases, raced: []string{"a first rate, set while claims go on, is not overtaken", "no window has more, whoever claims, fails and crashes", "no window of a group has more, whoever claims, fails and crashes"}},
		{name: "grouprates", cases: groupRateCases, raced: []string{"no window of a group has more, whoever claims, fails and crashes"}},
		{name: "unique", cases: uniqueCases, raced: []string{"of enqueuers at once one inserts and all learn the id", "crossing batches at once do not wait for each other for ever"}},
		{name: "held", cases: heldCases, raced: []string{"a claim gets what was replaced before it, and the answers agree"}},
		{name: "windows", cases: windowCases, raced: []string{"of many who enqueue at once none enqueues a key twice in its period"}},
		{name: "txwindows", cases: txWindowCases, tx: true, raced: []string{"who meets a period of an open transaction learns what became of it"}},
		{name: "flows", cases: slices.Concat(flowCases, flowBeforeCases)},
		{name: "flow order", cases: flowOrderCases},
		{name: "txflows", cases: txFlowCases, tx: true},
		{name: "flows at once", cases: flowRaceCases, races: true},
		{name: "jobs", cases: jobsCases, raced: []string{"a job is deleted or put back, never both"}},
		{name: "waiting", cases: waitingCases, races: true},
		{name: "wide", cases: wideCases},
		{name: "list", cases: listCases},
		{name: "stats", cases: statsCases},
		{name: "history", cases: historyCases, raced: []string{"the history of random work equals the truth, however many processes move it"}},
		{name: "failures", cases: failureCases},
		{name: "schedules", cases: scheduleCases, raced: []string{"each tick makes one job, however many processes look", "changes made at the same time are both made"}},
		{name: "settings", cases: settingCases, raced: []string{"changes of settings made at the same time are all made"}},
		{name: "workers", cases: workerCases, raced: []string{"many workers report at once", "Run registers its worker and removes it at the end", "a worker that cannot register works all the same"}},
		{name: "changes", cases: changeCases, raced: []string{"many note changes at once"}},
		{name: "repair", cases: repairCases, raced: []string{"counts are exact that are mended while others work, by two at once"}},
		{name: "rows", cases: rowCases, raced: []string{"rows that break the rules hide no others, and end"}},
		{name: "limits", cases: limitCases},
		{name: "wake", cases: wakeCases, races: true},
		{name: "close", cases: closeCases, races: true},
		{name: "misuse", cases: misuseCases, races: true},
		{name: "race", cases: raceCases, races: true},
		{name: "chaos", cases: chaosCases, races: true},
	}
}

// Names lists the tests of the suite as chapter/sentence.
func Names() []string {
	var names []string
	for _, ch := range chapters() {
		for _, c := range ch.cases {
			names = append(names, ch.name+"/"+c.name)
		}
	}
	return names
}

// Run runs the whole suite on databases that newDatabase makes.
func Run(t *testing.T, f Features, newDatabase Maker) { RunSome(t, f, newDatabase, nil) }

// RunSome runs the suite on a store that keeps only some of the promises. The map without
// gives, for each chapter or test ([Names]) that does not apply, the reason.
func RunSome(t *testing.T, f Features, newDatabase Maker, without map[string]string) {
	for name := range without {
		if !slices.ContainsFunc(Names(), func(n string) bool { return n == name || strings.HasPrefix(n, name+"/") }) {
			t.Errorf("the suite has no test %q", name)
		}
	}
	for _, ch := range chapters() {
		t.Run(ch.name, func(t *testing.T) {
			if reason := without[ch.name]; reason != "" {
				t.Skip(reason)
			}
			t.Parallel()
			for _, c := range ch.cases {
				t.Run(c.name, func(t *testing.T) {
					if reason := without[ch.name+"/"+c.name]; reason != "" {
						t.Skip(reason)
					}
					meet := ch.races || slices.Contains(ch.raced, c.name)
					needs.RacePart(t, meet)
					t.Parallel()
					if !ch.tx {
						runCase(t, f, newDatabase, c, "", meet)
						return
					}
					for _, kind := range f.Transactions {
						t.Run(kind, func(t *testing.T) {
							t.Parallel()
							runCase(t, f, newDatabase, c, kind, meet)
						})
					}
				})
			}
		})
	}
}

func runCase(t *testing.T, f Features, newDatabase Maker, c oneCase, txKind string, meet bool) {
	setup := newDatabase(t)
	if got := slices.Sorted(maps.Keys(setup.Begin)); !slices.Equal(got, slices.Sorted(slices.Values(f.Transactions))) {
		t.Fatalf("Setup.Begin has %q, Features.Transactions says %q", got, f.Transactions)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if txKind == "" && len(f.Transactions) > 0 {
		txKind = f.Transactions[0]
	}
	// It is registered after the store's own cleanup, so it runs before the store is closed.
	t.Cleanup(func() { expectConsistent(t, setup.Store) })
	c.run(&test{T: t, Features: f, Setup: setup, db: setup.Store, ctx: ctx, begin: setup.Begin[txKind], meet: meet})
}

// expectConsistent ends every test: it expects the store's check to find nothing.
func expectConsistent(t *testing.T, db admin.Database) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := db.Check(ctx)
	if err != nil {
		t.Errorf("consistency check: %v", err)
	}
	for _, line := range found {
		t.Errorf("consistency check: %s", line)
	}
}

// random returns a source of random numbers. It logs the seed, which DIBS_TEST_SEED can set.
func (t *test) random() *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("DIBS_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("DIBS_TEST_SEED: %v", err)
		}
	}
	t.Logf("DIBS_TEST_SEED=%d repeats this", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
