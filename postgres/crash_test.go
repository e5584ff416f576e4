package postgres_test

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// TestAKilledServerHasAllThatItAcknowledged kills the server again and again, at random
// moments under load. Package crash lists what must be there afterwards, and the limits of
// this proof.
func TestAKilledServerHasAllThatItAcknowledged(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	dir, r := t.TempDir(), crash.Random(t)
	for i := range crash.Times(3, 50) {
		crash.KillUnderLoad(t, server, opened(t, server.URL(), postgres.Options{MaxConns: crash.Clients}), dir, r, i)
	}
	for _, line := range judge(t, server, dir, "judge") {
		t.Error(line)
	}
}

// TestAServerThatAcknowledgesTooEarlyIsFoundOut shows that the test above can fail:
// without synchronous commits, a kill loses acknowledged calls.
func TestAServerThatAcknowledgesTooEarlyIsFoundOut(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	admin := connect(t, server.URL())
	execute(t, admin, "alter system set synchronous_commit = off")
	execute(t, admin, "alter system set wal_writer_delay = '10s'") // keep the server from writing its log just before the kill
	server.Restart(pgtest.Fast)
	dir, r := t.TempDir(), crash.Random(t)
	for i := range 5 { // now and then a kill comes just after the server wrote its log for another reason
		crash.KillUnderLoad(t, server, opened(t, server.URL(), postgres.Options{MaxConns: crash.Clients}), dir, r, i)
		if found := judge(t, server, dir, fmt.Sprint("judge-", i)); len(found) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

func judge(t *testing.T, server *pgtest.Server, dir, name string) []string {
	t.Helper()
	db := opened(t, server.URL(), postgres.Options{})
	defer db.Close()
	found, err := crash.Judge(t.Context(), db, dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
