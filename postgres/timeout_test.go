package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// Under a statement_timeout that ends them, an operator's calls go on in smaller steps. Each row takes ten milliseconds
// here, so all of them take twice as long as a statement may.
func TestOperatorsGoOnInSmallerStepsUnderATimeout(t *testing.T) {
	t.Parallel()
	const n = 100
	address := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	plain := opened(t, address, postgres.Options{})
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "q", Kind: "k"}
	}
	done, err := plain.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, n)
	for i, e := range done {
		ids[i] = e.ID
	}
	_, err = connect(t, address).Exec(t.Context(), `
		create function dibs.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.01); return coalesce(new, old); end';
		create trigger slow before update or delete on dibs.job for each row execute function dibs.slow();
		create trigger slow before delete on dibs.finished for each row execute function dibs.slow()`)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("statement_timeout", "500")
	u.RawQuery = q.Encode()
	s := opened(t, u.String(), postgres.Options{})
	if got, err := s.Edit(t.Context(), ids, admin.Edit{Priority: new(3)}); err != nil || len(got) != n {
		t.Errorf("edited %d jobs, %v", len(got), err)
	}
	cancel := func() {
		t.Helper()
		if got, _, err := s.Cancel(t.Context(), ids); err != nil || !slices.Equal(got, ids) {
			t.Fatalf("cancelled %d jobs, %v", len(got), err)
		}
	}
	cancel()
	if got, err := s.Requeue(t.Context(), ids, time.Time{}); err != nil || len(got) != n {
		t.Fatalf("requeued %d jobs, %v", len(got), err)
	}
	cancel()
	if got, err := s.Prune(t.Context(), "q", dibs.Cancelled, 0); err != nil || got != n {
		t.Errorf("pruned %d jobs, %v", got, err)
	}
}

// A check reads everything, in one snapshot, and so for longer than a statement_timeout allows. Here a lock holds it up.
func TestACheckTakesAsLongAsItNeedsUnderATimeout(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	address := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	holder, look := connect(t, address), connect(t, address)
	s := opened(t, address+"&statement_timeout=500&application_name=checking", postgres.Options{Pooler: true})
	for name, check := range map[string]func(context.Context) ([]string, error){"check": s.Check, "repair": s.Repair} {
		tx, err := holder.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "lock table dibs.finished in access exclusive mode"); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() {
			_, err := check(t.Context())
			result <- err
		}()
		for waits := false; !waits && len(result) == 0; time.Sleep(20 * time.Millisecond) {
			const sql = "select count(*) > 0 from pg_stat_activity where application_name = 'checking' and datname = current_database() and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '700 ms'"
			if err := look.QueryRow(t.Context(), sql).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error of a server that only reads names the setting that may be the cause.
func TestAReadOnlyServerIsNamed(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	s := opened(t, u.String(), postgres.Options{})
	_, err = s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
	if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Errorf("enqueued: %v", err)
	}
	_, err = s.Sweep(t.Context()) // an error even though there is nothing to do
	if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Errorf("swept: %v", err)
	}
}
