package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

const crashClients = 8

// TestAKilledServerHasAllThatItAcknowledged kills the server again and again, at random
// moments under load. Package crash lists what must be there afterwards, and the limits of
// this proof.
func TestAKilledServerHasAllThatItAcknowledged(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := mytest.NewServer(t, false)
	dir, r := t.TempDir(), crash.Random(t)
	for i := range crash.Times(3, 50) {
		killUnderLoad(t, server, dir, r, i)
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
		killUnderLoad(t, server, dir, r, i)
		if found := judge(t, server, dir, fmt.Sprint("judge-", i)); len(found) > 0 {
			return
		}
	}
	t.Error("nothing was missing")
}

// killUnderLoad runs clients until it kills the server, and starts that again.
func killUnderLoad(t *testing.T, server *mytest.Server, dir string, r *rand.Rand, run int) {
	t.Helper()
	db := opened(t, server.Address())
	defer db.Close()
	rec, err := history.OpenIn(dir, fmt.Sprint("clients-", run))
	if err != nil {
		t.Fatal(err)
	}
	const least = 10 * crashClients // the kill waits for this many answers, so that there is something to lose
	answers, ended := make(chan struct{}, least), make(chan error, crashClients)
	for i := range crashClients {
		c := crash.Client{
			Name: fmt.Sprintf("c%d", i), DB: history.Wrap(db, rec), Rand: rand.New(rand.NewPCG(r.Uint64(), 0)),
			Answered: func() {
				select {
				case answers <- struct{}{}:
				default:
				}
			},
		}
		go func() { ended <- c.Loop(context.Background()) }()
	}
	for range least {
		select {
		case <-answers:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	time.Sleep(time.Duration(r.IntN(300_000)) * time.Microsecond)
	err = rec.Fault("", "server killed", func() error {
		server.Kill()
		for range crashClients {
			if err := <-ended; !errors.Is(err, dibs.ErrUnavailable) {
				t.Error(err)
			}
		}
		server.Start()
		return nil
	})
	if err := errors.Join(err, rec.Close()); err != nil {
		t.Fatal(err)
	}
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
	s, err := mysql.Open(t.Context(), address, mysql.Options{MaxConns: crashClients})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
