package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Clients is how many clients use a store in KillUnderLoad.
const Clients = 8

// Server can be killed and started again.
type Server interface {
	Kill()
	Start()
}

// KillUnderLoad runs clients until it kills the server, and starts that again. Their records are in dir. It closes the store.
func KillUnderLoad(t *testing.T, server Server, db admin.Database, dir string, r *rand.Rand, run int) {
	t.Helper()
	defer db.Close()
	rec, err := history.OpenIn(dir, fmt.Sprint("clients-", run))
	if err != nil {
		t.Fatal(err)
	}
	const least = 10 * Clients // the kill waits for this many answers, so that there is something to lose
	answers, ended := make(chan struct{}, least), make(chan error, Clients)
	for i := range Clients {
		c := Client{
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
		for range Clients {
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
