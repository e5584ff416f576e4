package mysql_test

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// TestAKilledServerHasAllThatItAcknowledged kills the server again and again, at random
// moments under load. Package crash lists what must be there afterwards, and the limits of
// this proof.
func TestAKilledServerHasAllThatItAcknowledged(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := mytest.NewServer(t, false)
	dir, r := t.TempDir(), crash.Random(t)
	for i := range crash.Times(3, 50) {
		crash.KillUnderLoad(t, server, opened(t, server.Address()), dir, r, i)
	}
	for _, line := range judge(t, server, dir, "judge") {
		t.Error(line)
	}
}

// TestAServerThatAcknowledgesTooEarlyIsFoundOut shows that the test above can fail:
// if the server does not write its log at each commit, a kill loses acknowledged calls.
func TestAServerThatAcknowledgesTooEarlyIsFoundOut(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := mytest.NewServer(t, true)
	dir, r := t.TempDir(), crash.Random(t)
	for i := range 5 { // now and then a kill comes just after the server wrote its log for another reason
		crash.KillUnderLoad(t, server, opened(t, server.Address()), dir, r, i)
		if found := judge(t, server, dir, fmt.Sprint("judge-", i)); len(found) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

func judge(t *testing.T, server *mytest.Server, dir, name string) []string {
	t.Helper()
	db := opened(t, server.Address())
	defer db.Close()
	found, err := crash.Judge(t.Context(), db, dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// opened opens a store that the caller closes.
func opened(t *testing.T, address string) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(t.Context(), address, mysql.Options{MaxConns: crash.Clients})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
