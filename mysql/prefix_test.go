package mysql_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// prefixes are of stores in one database. One begins with another, one has the default in it, one is as long as may be.
var prefixes = []string{"", "shop_", "shop_old_", "my_dibs_", "a_prefix_of_thirty_two_letters__"}

func withPrefix(t *testing.T, address, prefix string) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(t.Context(), address, mysql.Options{Prefix: prefix})
	if err != nil {
		t.Fatalf("with prefix %q: %v", prefix, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestStoresWithPrefixesShareADatabase has each store do something of everything, and see nothing of the others.
func TestStoresWithPrefixesShareADatabase(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	var stores []*mysql.Store
	for _, prefix := range prefixes {
		var ran []string
		o := mysql.Options{Prefix: prefix, Migrated: func(_ int, names []string) { ran = names }}
		if err := mysql.Migrate(t.Context(), address, o); err != nil || len(ran) == 0 {
			t.Fatalf("prefix %q: the migration ran %q, %v", prefix, ran, err)
		}
		if err := mysql.Migrate(t.Context(), address, o); err != nil || len(ran) != 0 {
			t.Errorf("prefix %q: the second migration ran %q, %v", prefix, ran, err)
		}
		stores = append(stores, withPrefix(t, address, prefix))
	}
	for i, s := range stores {
		liveWithPrefix(t, s, i+1)
	}
	for i, s := range stores {
		list, err := s.Stats(t.Context())
		if err != nil || len(list) != 1 || list[0].Completed != int64(i+1) || list[0].Waiting != 1 {
			t.Errorf("prefix %q: the queues are %+v, %v", prefixes[i], list, err)
		}
		soundAfter(t, s)
	}
	allInOneTransaction(t, stores)
}

// liveWithPrefix has n jobs of a group with a rate live and end, and leaves one with a unique key.
func liveWithPrefix(t *testing.T, s *mysql.Store, n int) {
	t.Helper()
	ctx := t.Context()
	_, err := s.ChangeQueue(ctx, "q", func(q *dibs.Queue) error {
		q.GroupLimit, q.GroupRate, q.Concurrency = 10, dibs.Rate{N: 1000, Per: time.Second}, 10
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 100})
	if err != nil || len(jobs) != n {
		t.Fatalf("%d jobs were claimed, %v, want %d", len(jobs), err, n)
	}
	var done []dibs.Outcome
	for _, j := range jobs {
		done = append(done, j.Lease().Complete(nil))
	}
	if err := s.Finish(ctx, done); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "u"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
}

// allInOneTransaction enqueues a job in each store, in one transaction that is rolled back, and in one that is committed.
func allInOneTransaction(t *testing.T, stores []*mysql.Store) {
	t.Helper()
	for want, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := stores[0].DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stores {
			if _, err := s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "other", Kind: "k"}}); err != nil {
				t.Error(err)
			}
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		for i, s := range stores {
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "other", Worker: "w", N: 10})
			if err != nil || len(jobs) != want {
				t.Errorf("prefix %q: %d jobs were claimed, %v, want %d", prefixes[i], len(jobs), err, want)
			}
		}
	}
}

// TestAPrintedMigrationHasThePrefix runs it as another tool does.
func TestAPrintedMigrationHasThePrefix(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	for _, prefix := range prefixes[1:3] {
		text, err := mysql.Migrations(mysql.Options{Prefix: prefix}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "dibs_") {
			t.Errorf("with prefix %q it has other names", prefix)
		}
		tool, err := sql.Open("mysql", address+"?multiStatements=true")
		if err != nil {
			t.Fatal(err)
		}
		execute(t, tool, text)
		s, err := mysql.Open(t.Context(), address, mysql.Options{Prefix: prefix, Existing: true})
		if err != nil {
			t.Fatal(err)
		}
		liveWithPrefix(t, s, 1)
		if err := errors.Join(s.Close(), tool.Close()); err != nil {
			t.Error(err)
		}
	}
	if _, err := mysql.Open(t.Context(), address, mysql.Options{Existing: true}); !errors.Is(err, mysql.ErrNoTables) {
		t.Errorf("without a prefix: %v", err)
	}
}
