package postgres_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Two transactions that take two keys in opposite orders: one is refused, as docs/howto/sql.md says.
func TestTheFunctionsRefuseOneOfTwoOrdersOfKeys(t *testing.T) {
	t.Parallel()
	_, url := migrated(t, postgres.Options{})
	conns := []*pgx.Conn{connect(t, url), connect(t, url)}
	execute(t, conns[0], "begin; select dibs.enqueue('q', unique_key => 'a')")
	execute(t, conns[1], "begin; select dibs.enqueue('q', unique_key => 'b')")
	ended := make(chan error, 2)
	for i, key := range []string{"b", "a"} {
		go func() {
			_, err := conns[i].Exec(t.Context(), "select dibs.enqueue('q', unique_key => '"+key+"')")
			_, _ = conns[i].Exec(t.Context(), "rollback") // lets the other one go on
			ended <- err
		}()
	}
	refused := 0
	for range conns {
		var e *pgconn.PgError
		if err := <-ended; errors.As(err, &e) && e.Code == "40P01" {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	page, err := os.ReadFile("../docs/howto/sql.md")
	if err != nil || refused != 1 || !strings.Contains(string(page), "`40P01` (deadlock detected)") {
		t.Errorf("%d of two were refused for a deadlock, of which the page must tell; %v", refused, err)
	}
}
