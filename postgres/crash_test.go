package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/crash"
	"github.com/dibs-queue/dibs/internal/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

const crashClients = 8

// TestAKilledServerHasAllThatItAcknowledged kills the server again and again, at random
// moments under load. Package crash lists what must be there afterwards, and the limits of
// this proof.
func TestAKilledServerHasAllThatItAcknowledged(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	r := crash.Random(t)
	var ledger crash.Ledger
	calls, kills := 0, crash.Times(3, 50)
	for i := range kills {
		calls += killUnderLoad(t, server, &ledger, r, i)
		for _, line := range judge(t, server, &ledger) {
			t.Errorf("kill %d: %s", i, line)
		}
	}
	left, err := crash.Drain(t.Context(), opened(t, server.URL(), postgres.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d calls acknowledged; %d jobs were left and then completed", kills, calls, left)
}

// TestAServerThatAcknowledgesTooEarlyIsFoundOut shows that the test above can fail:
// without synchronous commits, a kill loses acknowledged calls.
func TestAServerThatAcknowledgesTooEarlyIsFoundOut(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	admin := connect(t, server.URL())
	execute(t, admin, "alter system set synchronous_commit = off")
	execute(t, admin, "alter system set wal_writer_delay = '10s'") // keep the server from writing its log just before the kill
	server.Restart(pgtest.Fast)
	var ledger crash.Ledger
	r := crash.Random(t)
	for i := range 5 { // a kill may come just after the server wrote its log for another reason
		killUnderLoad(t, server, &ledger, r, i)
		if found := judge(t, server, &ledger); len(found) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

// killUnderLoad runs clients until it kills the server, starts the server again, and
// returns how many calls were acknowledged.
func killUnderLoad(t *testing.T, server *pgtest.Server, ledger *crash.Ledger, r *rand.Rand, run int) int {
	t.Helper()
	db := opened(t, server.URL(), postgres.Options{MaxConns: crashClients})
	defer db.Close()
	answers, ended := make(chan struct{}, 1000), make(chan error)
	for i := range crashClients {
		c := crash.Client{
			Name: fmt.Sprintf("c%d", i), Run: strconv.Itoa(run), DB: db, Rand: rand.New(rand.NewPCG(r.Uint64(), 0)),
			Note: func(n crash.Note) {
				ledger.Add(n)
				if n.Answer != crash.None {
					answers <- struct{}{}
				}
			},
		}
		go func() { ended <- c.Loop(context.Background()) }()
	}
	// Kill at any moment after the first calls, so that there is something to lose.
	calls, least := 0, 10*crashClients
	var at <-chan time.Time
	for left := crashClients; left > 0; {
		select {
		case <-answers:
			if calls++; calls == least {
				at = time.After(time.Duration(r.IntN(300_000)) * time.Microsecond)
			}
		case <-at:
			server.Kill()
		case err := <-ended:
			left--
			if !errors.Is(err, dibs.ErrUnavailable) {
				t.Error(err)
			}
		}
	}
	server.Start()
	return calls
}

func judge(t *testing.T, server *pgtest.Server, ledger *crash.Ledger) []string {
	t.Helper()
	db := opened(t, server.URL(), postgres.Options{})
	defer db.Close()
	found, err := ledger.Judge(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
