package dibstest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/dibstest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A handler writes to a table of the program's, in the transaction that completes its job.
func TestAHandlerThatUsesPgx(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.URL(t)
	var made string
	t.Run("its test", func(t *testing.T) {
		store, pool := dibstest.Postgres(t, server)
		if _, err := pool.Exec(t.Context(), "create table visit (name text)"); err != nil {
			t.Fatal(err)
		}
		w := &dibs.Worker{Store: store}
		dibs.Handle(w, "visit", func(ctx context.Context, job *dibs.Job[string]) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "insert into visit values ($1)", job.Payload); err != nil {
					return err
				}
				return job.FinishIn(ctx, store.Tx(tx), nil)
			})
		})
		dibstest.Work(t, w, dibs.NewJob{Kind: "visit", Payload: "Ann"})
		var name string
		if err := pool.QueryRow(t.Context(), "select name from visit").Scan(&name); err != nil || name != "Ann" {
			t.Errorf("there was a visit of %q, %v", name, err)
		}
		dibstest.RequireEnqueued(t, store, dibstest.Want{Kind: "visit", State: dibs.Completed})
		made = pool.Config().ConnConfig.Database
		other, _ := dibstest.Postgres(t, pool.Config().ConnString())
		dibstest.NotEnqueued(t, other, dibstest.Want{})
	})
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // only read from
	var left bool
	if err := conn.QueryRow(t.Context(), "select exists (select from pg_database where datname = $1)", made).Scan(&left); err != nil || left || made == "" {
		t.Errorf("after the test its database %q is there: %v, %v", made, left, err)
	}
}

func TestPostgresSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ url, want string }{
		"no URL":       {"", "variable of the environment"},
		"no server":    {"postgres://ann:secret@127.0.0.1:1/x", "is the server running?"},
		"no such host": {"host=127.0.0.1 port=1 user=ann password=secret", "is the server running?"},
		"a bad URL":    {"postgres://ann:secret@127.0.0.1:one/x", "cannot be read"},
	} {
		said := failure(t, func(t testing.TB) { dibstest.Postgres(t, c.url) })
		if !strings.Contains(said, c.want) || strings.Contains(said, "secret") {
			t.Errorf("%s: the test fails with %q, without %q", name, said, c.want)
		}
	}
}

func TestPostgresNamesTheRightThatTheRoleLacks(t *testing.T) {
	t.Parallel()
	address := pgtest.Role(t, pgtest.URL(t))
	if said := failure(t, func(t testing.TB) { dibstest.Postgres(t, address) }); !strings.Contains(said, "createdb") {
		t.Errorf("the test fails with %q", said)
	}
}

// A test that forgets a transaction fails, and does not hang.
func TestAConnectionThatIsStillInUseFailsTheTest(t *testing.T) {
	t.Parallel()
	_, pool := dibstest.Postgres(t, pgtest.URL(t))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := failure(t, func(t testing.TB) { dibstest.ClosePool(t, pool, time.Millisecond) }); !strings.Contains(said, "in use: 1") {
		t.Errorf("the test fails with %q", said)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
