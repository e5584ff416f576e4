package postgres_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// Any role can send notifications. Those that bring no job wake a process 50 times a second at last; once a claim has found
// a job, the next is heard at once again.
func TestForgedNotificationsWakeNobodyOften(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	other := b.openAnother()
	wake, stop := b.Wakeups("q")
	defer stop()
	b.awaitListening(wake, other, "q")
	forge := func(queue string) {
		_, err := b.pool.Exec(b.ctx, "select pg_notify('dibs:dibs', 'forged ' || $1)", queue)
		b.must(err)
	}
	claim := func() int {
		jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
		b.must(err)
		return len(jobs)
	}
	began, woken := time.Now(), 0
	for range 300 {
		forge("q")
		forge("new q")
		select {
		case <-wake:
			woken++
			if claim() > 0 {
				t.Fatal("there is a job")
			}
		case <-time.After(time.Millisecond):
		}
	}
	if most := 20 + int(time.Since(began)/(20*time.Millisecond)); woken > most {
		t.Errorf("300 forged notifications have woken a worker %d times, more than %d", woken, most)
	}
	_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	b.must(err)
	if claim() != 1 {
		t.Fatal("the job was not claimed")
	}
	b.awaitWakeup(wake) // the wakeup of the enqueue, or of the notification that waited
	for heard := 0; heard < 5; heard++ {
		forge("q")
		b.awaitWakeup(wake)
	}
}
