package server_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/metrics"
	"github.com/dibs-queue/dibs/server"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// The page says which transaction holds the row of a late schedule, and how to end it; a token for some queues only
// learns nothing of other programs on the database.
func TestThePageNamesTheHolderOfALateSchedule(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	if err := open.Migrate(t.Context(), open.URL(address), open.Options{}); err != nil {
		t.Fatal(err)
	}
	db := database(t, open.URL(address))
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k", Delay: time.Hour})
	if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: "nightly", Spec: "@daily", Queue: "mail", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	holder, err := pgx.Connect(t.Context(), address+"&application_name=report")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close(context.Background()) })
	for _, sql := range []string{"update dibs.schedule set next_at = now() - interval '10 minutes'", "begin", "select 'secret' from dibs.schedule for update"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	tokens, secrets, _ := someTokens(t, map[string]string{"all": "admin", "some": "read:mail"})
	observed, err := metrics.Observe(prometheus.NewRegistry(), db) // as dibs serve does
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, observed, server.Options{Tokens: tokens})
	for token, secret := range secrets {
		b, all := newBrowser(t, url), token == "all"
		if status, _ := b.send("/login", "token", secret); status != http.StatusOK {
			t.Fatal(status)
		}
		for _, path := range []string{"/", "/queues/mail", "/schedules"} {
			text := html.UnescapeString(b.sees(path))
			who := fmt.Sprintf("as process %d of the server holds its row, in a transaction that is open for ", holder.PgConn().PID())
			next := fmt.Sprintf("<code>select pg_terminate_backend(%d);</code>", holder.PgConn().PID())
			if named := strings.Contains(text, who) && strings.Contains(text, "; report, user ") && strings.Contains(text, "idle in transaction") && strings.Contains(text, next); named != all {
				t.Errorf("with the token %s, %s names the holder: %v, want %v\n%s", token, path, named, all, text)
			}
			if strings.Contains(text, "secret") || !all && strings.Contains(text, "report") {
				t.Errorf("with the token %s, %s tells of other programs:\n%s", token, path, text)
			}
			if !all && !strings.Contains(text, "as another transaction holds its row: 'dibs doctor' says which") {
				t.Errorf("with the token %s, %s does not say why nightly is late:\n%s", token, path, text)
			}
		}
	}
}

// The page says who holds the jobs of a queue that hangs, and leads to the setting that ends their attempts.
func TestThePageNamesTheWorkerOfJobsThatHang(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "send"}, dibs.NewJob{Queue: "mail", Kind: "send"})
	if err := db.Register(t.Context(), dibs.WorkerInfo{ID: dibs.Token{1}, Name: "anna", PID: 12, Host: "h", Queues: []string{"mail"}, Concurrency: 1, State: dibs.WorkerWorking}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "anna", N: 1, Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, longAgo{db}, server.Options{})
	for _, path := range []string{"/", "/queues/mail"} {
		text := html.UnescapeString(newBrowser(t, url).sees(path))
		for _, part := range []string{"worker anna (process 12 on h) has held job 1 (send) for 3m; no attempt of the queue has ended since", "a timeout ends these attempts, and each of them counts", `queues/mail#f-job_timeout">set a job timeout</a>`} {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q:\n%s", path, part, text)
			}
		}
	}
}

// longAgo is a database whose running jobs were claimed three minutes ago.
type longAgo struct{ admin.Database }

func (l longAgo) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	page, err := l.Database.List(ctx, f)
	for _, j := range page.Jobs {
		j.ClaimedAt = j.ClaimedAt.Add(-3 * time.Minute)
	}
	return page, err
}
