package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
)

// BenchmarkFair claims and finishes 10 jobs at a time from 10,000 groups, one of which has a million jobs, in a fair
// queue and in one that is fifo; then again beside a transaction whose snapshot stays open.
func BenchmarkFair(b *testing.B) {
	ctx := context.Background()
	big := "big"
	for _, order := range []dibs.Order{dibs.FIFO, dibs.Fair} {
		s, url := openBenchURL(b)
		if _, err := s.ChangeQueue(ctx, "bench", dibs.QueueChange{Order: &order, GroupLimit: new(2)}.Apply); err != nil {
			b.Fatal(err)
		}
		enqueueAll(b, s, 10, 10, 10)
		fill(b, url, 1_000_000, 1, &big, "0")
		if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "bench", Kind: "mail", Group: big}}); err != nil {
			b.Fatal(err)
		}
		enqueueAll(b, s, 100_000, 1000, 10_000)
		round := func(b *testing.B) {
			jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 10})
			if err != nil || len(jobs) != 10 {
				b.Fatal(len(jobs), err)
			}
			done := make([]dibs.Outcome, len(jobs))
			for i, j := range jobs {
				done[i] = j.Lease().Complete(nil)
			}
			if err := s.Finish(ctx, done); err != nil {
				b.Fatal(err)
			}
		}
		for range 100 { // the first claims admit all groups
			round(b)
		}
		b.Run(fmt.Sprintf("order=%s", order), func(b *testing.B) {
			for b.Loop() {
				round(b)
			}
		})
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			b.Fatal(err)
		}
		for _, q := range []string{"begin isolation level repeatable read", "select count(*) from dibs.queue"} {
			if _, err := conn.Exec(ctx, q); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("order=%s/snapshot=held", order), func(b *testing.B) {
			began := time.Now()
			rounds := 0
			var last time.Duration
			for b.Loop() {
				at := time.Now()
				round(b)
				rounds++
				last = time.Since(at)
			}
			b.ReportMetric(float64(last.Microseconds()), "us-last")
			b.ReportMetric(time.Since(began).Seconds(), "s-held")
		})
		conn.Close(ctx)
	}
}
