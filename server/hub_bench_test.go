package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// noJobs is a database whose due jobs are of many kinds that no client wants.
type noJobs struct {
	admin.Database
	kinds []string
}

func (n noJobs) Claim(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error) { return nil, nil }

func (n noJobs) Due(context.Context, []string, []string) ([]string, error) { return nil, nil }

func (n noJobs) DueKinds(context.Context, string) ([]string, error) { return n.kinds, nil }

func (n noJobs) Wakeups(string) (<-chan struct{}, func()) { return nil, func() {} }

// BenchmarkWakeupOfManyKinds measures a wakeup of 1,000 clients with 240 kinds of their own, where jobs of 1,000 other kinds are
// due, and the memory of such a client.
func BenchmarkWakeupOfManyKinds(b *testing.B) {
	db := noJobs{}
	for i := range 1000 {
		db.kinds = append(db.kinds, fmt.Sprintf("nobody's.%d", i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := &hub{
		db: db, log: slog.New(slog.DiscardHandler), closing: b.Context(), run: func(f func()) { f() }, lines: map[string]*line{},
		load: func(_ context.Context, _ int, call func() error) error { return call() },
	}
	const clients = 1000
	var l *line
	for i := range clients {
		kinds := make([]string, 240)
		for k := range kinds {
			kinds[k] = fmt.Sprintf("shop.%d.orders.%d", i, k)
		}
		w := &waiter{kinds: setOf(kinds), room: &room{all: &gauge{}, limit: 1}, answer: make(chan claimed, 1)}
		l = h.lineOf("q")
		l.waiting = append(l.waiting, w)
		l.nothing[w.kinds] = 1
		l.mu.Unlock()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		l.ask()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/clients, "B/client")
}
