package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// migrated is a store in a fresh database.
func migrated(t *testing.T, o postgres.Options) (*postgres.Store, string) {
	t.Helper()
	url := pgtest.Filled(t, "migrated "+o.Schema, func(url string) error {
		return postgres.Migrate(context.Background(), url, postgres.Options{Schema: o.Schema})
	})
	return opened(t, url, o), url
}

func opened(t *testing.T, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	markIfAsked(s)
	return s
}

// newBenchOn is a bench for a store in the database at url.
func newBenchOn(t *testing.T, s *postgres.Store, url string) bench {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return bench{T: t, Store: s, pool: pool, ctx: ctx}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// lifecycle takes a few jobs, grouped and unique ones among them, through all verbs.
func lifecycle(t *testing.T, s *postgres.Store) {
	t.Helper()
	ctx := t.Context()
	jobs := []dibs.NewJob{{Kind: "k"}, {Kind: "k", Group: "g"}, {Kind: "k", Group: "g"}, {Kind: "k", UniqueKey: "u"}, {Kind: "k", UniqueKey: "u"}}
	added, err := s.Enqueue(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if !added[4].Existing || added[4].ID != added[3].ID {
		t.Errorf("second job with the key: %+v", added)
	}
	claim := func(want int) []*dibs.RawJob {
		t.Helper()
		got, err := s.Claim(ctx, dibs.ClaimRequest{Worker: "w", N: 10})
		if err != nil || len(got) != want {
			t.Fatalf("claimed %d jobs, want %d: %v", len(got), want, err)
		}
		return got
	}
	var done []dibs.Outcome
	var leases []dibs.Lease
	for _, j := range claim(3) {
		leases = append(leases, j.Lease())
		done = append(done, j.Lease().Complete([]byte(`"ok"`)))
	}
	if e, err := s.Extend(ctx, leases, time.Minute); err != nil || len(e.Lost) > 0 {
		t.Fatalf("extend: %+v, %v", e, err)
	}
	if err := s.Finish(ctx, done); err != nil {
		t.Fatal(err)
	}
	last := claim(1)[0]
	if err := s.Finish(ctx, []dibs.Outcome{last.Lease().Die("no")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, []dibs.Outcome{last.Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatalf("finishing twice: %v", err)
	}
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(ctx)
	if err != nil || stats[0].Completed != 3 || stats[0].Dead != 1 {
		t.Fatalf("stats: %+v, %v", stats, err)
	}
	if found, err := s.Check(ctx); err != nil || len(found) > 0 {
		t.Fatalf("check: %q, %v", found, err)
	}
}

func TestEverythingStaysInTheSchemaThatTheOptionNames(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{Schema: "My_Jobs"})
	lifecycle(t, s)
	var other int
	const objects = `select count(*) from pg_class where relnamespace not in ('"My_Jobs"'::regnamespace, 'pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)`
	if err := connect(t, url).QueryRow(t.Context(), objects).Scan(&other); err != nil || other != 0 {
		t.Errorf("%d tables, indexes or sequences outside of the schema: %v", other, err)
	}
}

func TestASchemaNameThatIsNoPlainNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.b", `x"; drop schema public; --`, "1st", strings.Repeat("x", 64), "é"} {
		if err := postgres.Migrate(t.Context(), "postgres://nowhere.invalid", postgres.Options{Schema: name}); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("schema %q: %v", name, err)
		}
	}
}

func TestRunningNeedsNoRightToChangeTheSchema(t *testing.T) {
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	admin := connect(t, address)
	role := "dibs_test_" + fmt.Sprint(time.Now().UnixNano())
	execute(t, admin, "create role "+role+" login password 'secret'")
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), "drop owned by "+role+"; drop role "+role)
		if err != nil {
			t.Error(err)
		}
	})
	execute(t, admin, "grant usage on schema dibs to "+role)
	execute(t, admin, "grant select, insert, update, delete on all tables in schema dibs to "+role)
	execute(t, admin, "grant usage, select on all sequences in schema dibs to "+role)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	lifecycle(t, opened(t, u.String(), postgres.Options{}))
}

func TestOpeningSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, err := postgres.Open(t.Context(), url, postgres.Options{})
	if !errors.Is(err, dibs.ErrSchema) || !strings.Contains(err.Error(), "dibs migrate") {
		t.Errorf("without a schema: %v", err)
	}
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, url), "insert into dibs.migration (version, compatible_with) values (999, 1)")
	opened(t, url, postgres.Options{})
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
		t.Errorf("migrating a newer schema that may be used: %v", err)
	}
	execute(t, connect(t, url), "insert into dibs.migration (version, compatible_with) values (1000, 999)")
	_, err = postgres.Open(t.Context(), url, postgres.Options{})
	if !errors.Is(err, dibs.ErrSchema) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("with a newer schema: %v", err)
	}
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("migrating a newer schema: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "postgres://user:secretword@" + l.Addr().String() + "/db"
	l.Close()
	_, err = postgres.Open(t.Context(), nobody, postgres.Options{})
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("nobody listens: %v", err)
	}
	_, err = postgres.Open(t.Context(), "postgres://user:secretword@:bad:port/", postgres.Options{})
	if !errors.Is(err, dibs.ErrInvalid) || strings.Contains(err.Error(), "secretword") {
		t.Errorf("bad URL: %v", err)
	}
}

func TestProcessesThatMigrateAtTheSameTimeMakeOneSchema(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	lifecycle(t, opened(t, url, postgres.Options{}))
}

func TestThePrintedMigrationsMakeTheSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	text, err := postgres.Migrations(postgres.Options{Schema: "printed"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatal(err)
	}
	lifecycle(t, opened(t, url, postgres.Options{Schema: "printed"}))
}

func TestAQueueThatNobodySetHasTheDefaultSettings(t *testing.T) {
	t.Parallel()
	s, _ := migrated(t, postgres.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Queues(t.Context())
	if err != nil || len(list) != 1 || list[0] != dibs.DefaultSettings("q") {
		t.Errorf("got %+v, %v, want %+v", list, err, dibs.DefaultSettings("q"))
	}
}

// A transaction holds one of the pool's connections; the store's calls beside it must not
// need another one of the pool.
func TestOpenTransactionsCannotUseUpThePool(t *testing.T) {
	t.Parallel()
	_, url := migrated(t, postgres.Options{})
	s := opened(t, url, postgres.Options{MaxConns: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := s.InTx(ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Queue: "new", Kind: "k"}, {Queue: "newer", Kind: "k", Group: "g", UniqueKey: "u"}})
		if err != nil {
			return err
		}
		jobs, err := tx.Claim(ctx, dibs.ClaimRequest{Queue: "new", Worker: "w", N: 1})
		if err == nil && len(jobs) != 1 {
			err = fmt.Errorf("claimed %d jobs", len(jobs))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAStoreOnTheCallersPoolLeavesThePoolOpen(t *testing.T) {
	t.Parallel()
	_, url := migrated(t, postgres.Options{})
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lifecycle(t, s)
	s.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool after the store is closed: %v", err)
	}
}

// The server ends all connections under way, as it does at a restart.
func TestCallsGoOnAfterConnectionsWereLost(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	admin := connect(t, url)
	for range 5 {
		execute(t, admin, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		deadline := time.Now().Add(5 * time.Minute)
		for {
			_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
			if err == nil {
				break
			}
			if !errors.Is(err, dibs.ErrUnavailable) {
				t.Fatalf("a lost connection is not ErrUnavailable: %v", err)
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
}

// pgbouncer in transaction mode gives every transaction another server connection.
func TestItWorksBehindATransactionPooler(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	_, server := migrated(t, postgres.Options{})
	s := opened(t, pgtest.Pooler(t, server), postgres.Options{Pooler: true})
	lifecycle(t, s)
	ear, stop := s.Wakeups("default")
	defer stop()
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ear:
	case <-time.After(10 * time.Second):
		t.Error("nobody was woken in the same process")
	}
	limit := 2
	if _, err := s.ChangeQueue(t.Context(), "default", dibs.QueueChange{Concurrency: &limit}.Apply); err != nil {
		t.Fatal(err)
	}
	race(t, s, 200)
}

// race has ten claimers finish n jobs, some with groups, and expects each to be finished once.
func race(t *testing.T, s *postgres.Store, n int) {
	t.Helper()
	ctx := t.Context()
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "race", Kind: "k", Group: []string{"", "", "a", "b"}[i%4]}
	}
	if _, err := s.Enqueue(ctx, jobs); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[int64]int{}
	var wg sync.WaitGroup
	deadline := time.Now().Add(5 * time.Minute)
	for range 10 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				got, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "race", Worker: "w", N: 7, Lease: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				var done []dibs.Outcome
				mu.Lock()
				for _, j := range got {
					seen[j.ID]++
					done = append(done, j.Lease().Complete(nil))
				}
				all := len(seen) == n
				mu.Unlock()
				if err := s.Finish(ctx, done); err != nil {
					t.Error(err)
					return
				}
				if all {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d of %d jobs were claimed", len(seen), n)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("job %d was claimed %d times", id, times)
		}
	}
	if found, err := s.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("check: %q, %v", found, err)
	}
}
