package rowstore

import (
	"context"
	"testing"
	"testing/synctest"
)

// slowEngine is an engine whose writes notice the end of their context, and last until the test lets them go.
type slowEngine struct {
	Engine

	writes int
	goOn   chan struct{}
}

func (e *slowEngine) Write(ctx context.Context, _ func(*Session) error) error {
	e.writes++
	<-ctx.Done()
	<-e.goOn
	return ctx.Err()
}

// Close ends the goroutine that settles, and waits for it; after Close none begins.
func TestCloseWaitsForSettlements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &slowEngine{goOn: make(chan struct{})}
		s := New(e, &Dialect{})
		leave := func() {
			tx := &Session{}
			tx.flows.moved.left = true
			s.NoteSettled(tx)
			synctest.Wait()
		}
		leave()
		closed := false
		go func() {
			s.Close()
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("Close has left the goroutine")
		}
		close(e.goOn)
		synctest.Wait()
		leave()
		if !closed || e.writes != 1 {
			t.Errorf("closed: %v, after %d writes", closed, e.writes)
		}
	})
}
