package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// An idle worker costs little: it makes few calls (TestIdleWorkerMakesFewCalls), and each is
// one transaction.
func TestAnIdleWorkersCallIsOneTransaction(t *testing.T) {
	t.Parallel()
	s, sent := tracedStore(t)
	// Another store enqueues, since this one would send a NOTIFY later.
	admin := opened(t, s.pool.Config().ConnString())
	for name, paused := range map[string]bool{"paused": true, "empty": false} {
		if _, err := admin.ChangeQueue(t.Context(), name, dibs.QueueChange{Paused: &paused}.Apply); err != nil {
			t.Fatal(err)
		}
	}
	for queue, want := range map[string][]string{"empty": {"clock_due", "claim"}, "paused": {"queues", "clock_due"}, "missing": {"queues", "clock_due", "new_queues"}} {
		s.StopMarks(queue) // a slow machine would move them
		calls := map[string]func() error{
			"claim": func() error {
				_, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: 10})
				return err
			},
			"sweep": func() error {
				_, err := s.Sweep(t.Context())
				return err
			},
			"register": func() error {
				return s.Register(t.Context(), dibs.WorkerInfo{ID: dibs.Token{1}, Name: "w", Queues: []string{queue}, State: dibs.WorkerWorking})
			},
		}
		for _, name := range []string{"sweep", "claim", "claim", "sweep"} { // these calls still learn lanes and merge counts
			if err := calls[name](); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string][]string{"claim": want, "sweep": {"clock_due", "pending"}, "register": {"put_worker"}} {
			s.backdate(queue, 30*time.Second)
			sent.transactions = nil
			if err := calls[name](); err != nil {
				t.Fatal(err)
			}
			if len(sent.transactions) != 1 || !slices.Equal(sent.named(s), want) {
				t.Errorf("a %s of an idle worker from a queue that is %s sends %q, want %q in one transaction", name, queue, sent.named(s), want)
			}
		}
	}
}

// A worker with several queues asks for all of them in one transaction, also while they are
// missing or paused, and listens on one connection.
func TestAnIdleWorkersLookAtManyQueuesIsOneTransaction(t *testing.T) {
	t.Parallel()
	s, sent := tracedStore(t)
	admin := opened(t, s.pool.Config().ConnString())
	queues := []string{"missing", "paused", "grouped"}
	if _, err := admin.ChangeQueue(t.Context(), "paused", dibs.QueueChange{Paused: new(true)}.Apply); err != nil {
		t.Fatal(err)
	}
	jobs := []dibs.NewJob{{Queue: "grouped", Kind: "k", Group: "g", Delay: time.Hour}}
	for i := range 20 {
		queues = append(queues, fmt.Sprint("q", i))
		jobs = append(jobs, dibs.NewJob{Queue: queues[len(queues)-1], Kind: "k", Delay: time.Hour, Priority: new(i)})
	}
	if _, err := admin.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first looks learn the priorities
		sent.transactions = nil
		s.sweeper.expireCheckedAt = time.Now().Add(-expireEvery)
		if due, err := s.Due(t.Context(), queues, nil); err != nil || len(due) > 0 {
			t.Fatalf("due are %q, %v", due, err)
		}
	}
	if want := []string{"clock_due", "due_queues"}; len(sent.transactions) != 1 || !slices.Equal(sent.named(s), want) {
		t.Errorf("it sends %q, want %q in one transaction", sent.named(s), want)
	}
	for _, q := range queues {
		_, stop := s.Wakeups(q)
		defer stop()
	}
	listening := func() (n int) {
		const sql = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
		if err := admin.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for end := time.Now().Add(time.Minute); listening() == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if n := listening(); n != 1 {
		t.Errorf("%d connections listen", n)
	}
}

// Where nothing happens, retention comes less often, but it comes.
func TestHistoryGrowsOldWhereNothingHappens(t *testing.T) {
	t.Parallel()
	s, sent := tracedStore(t)
	for range 2 {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.backdate("", 2*pruneIdle)
	sent.transactions = nil
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := sent.named(s); !slices.Contains(names, "retention") {
		t.Errorf("the sweep sends %q", names)
	}
}

// The pages that a claim reads decide whether it uses marks: an idle worker beside a few
// running jobs needs none.
func TestMarksAreUsedByWhatClaimsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pages, got int
		much       bool
	}{{0, 0, false}, {fewPages, 0, false}, {fewPages + 1, 0, true}, {2 * fewPages, 1000, false}, {200, 1000, true}} {
		m := &marks{}
		if m.recordReads(false, c.pages, c.got); m.beginMove() != c.much {
			t.Errorf("a claim that reads %d pages and gets %d jobs asks for marks: %v", c.pages, c.got, !c.much)
		}
	}
}

// A connection is not tested before each claim of an idle worker: these are up to 1.8 s apart.
func TestConnectionsAreNotTriedBetweenAnIdleWorkersClaims(t *testing.T) {
	t.Parallel()
	config, err := poolConfig("postgres://127.0.0.1/any", &Options{})
	if err != nil {
		t.Fatal(err)
	}
	for idle, want := range map[time.Duration]bool{1800 * time.Millisecond: false, time.Minute: true} {
		if got := config.ShouldPing(t.Context(), pgxpool.ShouldPingParams{IdleDuration: idle}); got != want {
			t.Errorf("a connection unused for %v is tried: %v", idle, got)
		}
	}
}

// tracedStore is a store as Open makes it, with a record of what it sends.
func tracedStore(t *testing.T) (*Store, *traced) {
	t.Helper()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	return tracedStoreAt(t, url)
}

func tracedStoreAt(t *testing.T, url string) (*Store, *traced) {
	t.Helper()
	sent := &traced{}
	config, err := poolConfig(url, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := newStore(t.Context(), pool, Options{}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // never fails
	return s, sent
}

// migrated opens a store on a database of its own.
func migrated(t *testing.T) *Store {
	t.Helper()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	return opened(t, url)
}

func opened(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // never fails
	return s
}

// backdate makes the store's last sweep, and what else it does now and then, older by d.
func (s *Store) backdate(queue string, d time.Duration) {
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	for _, at := range []*time.Time{&s.sweeper.expireCheckedAt, &s.sweeper.prunedAt, &s.queues.lanesOf(queue).learned} {
		*at = time.Now().Add(-d)
	}
}

// traced records the statements that a store sends, by transaction. The store may send some by itself meanwhile.
type traced struct {
	mu           sync.Mutex
	transactions [][]string
}

// forget begins anew.
func (r *traced) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transactions = nil
}

func (r *traced) add(transaction []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transactions = append(r.transactions, transaction)
}

func (r *traced) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.add([]string{q.SQL})
	return ctx
}

func (r *traced) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	var list []string
	for _, q := range b.Batch.QueuedQueries {
		list = append(list, q.SQL)
	}
	r.add(list)
	return ctx
}

func (r *traced) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (r *traced) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *traced) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// named returns the statements by the names of their files.
func (r *traced) named(s *Store) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return statementNames(s, slices.Concat(r.transactions...))
}

func statementNames(s *Store, statements []string) (names []string) {
	for _, text := range statements {
		name := text
		for n, t := range s.sql.all() {
			if t == text {
				name = fileOf(n)
			}
		}
		names = append(names, name)
	}
	return names
}
