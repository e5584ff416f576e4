// Package workload measures a job queue: how fast it enqueues, claims and finishes,
// and what that costs. dibs bench runs the workloads on dibs; the module in bench runs
// them on another queue too.
package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Workload is something that is measured.
type Workload struct {
	ID   string // several that are alike share it
	Name string
	Rows []Row

	Postgres bool          // on PostgreSQL only
	Conns    int           // of a PostgreSQL server that it needs
	Takes    time.Duration // about, on a small machine
	Run      func(context.Context, *Bench, Product) (Measured, error)
}

// Row is one of the figures that a run of a workload gives.
type Row struct {
	Key  string // in Measured.Figures
	Name string
	Unit string
	X    float64 // where it stands in a plot; 0: in none
}

// Measured is what one run of a workload gave.
type Measured struct {
	Figures map[string]float64 // by the key of their row; what could not be found out is not there
	Series  []float64          // W5: jobs/s in equal parts of the time
}

// All are the workloads of dibs.
func All(b *Bench) []Workload {
	return slices.Concat(
		[]Workload{b.Bulk(1000), b.Bulk(10_000), b.Single(64), b.Single(1000), b.Drain(true), b.Drain(false), b.Latency(false), b.Latency(true), b.Snapshot(), b.Writers(), b.Depth()},
		b.Groups(), []Workload{b.HotGroup(), b.Lives(), b.Crowd(), b.Lone()},
	)
}

// throughput are the rows of what Timed measures.
func throughput() []Row {
	return []Row{
		{Key: "rate", Name: "rate", Unit: "jobs/s"},
		{Key: "server", Name: "server CPU", Unit: "us/job"},
		{Key: "client", Name: "client CPU", Unit: "us/job"},
		{Key: "wal", Name: "log written", Unit: "bytes/job"},
		{Key: "writes", Name: "transactions that write", Unit: "per 1,000 jobs"},
		{Key: "allocs", Name: "client's allocations", Unit: "/job"},
	}
}

// conns are the connections of so many processes, each with a pool, and of this one
// besides them.
func conns(processes, pool int) int {
	const (
		besidePool = 3 // of a store, for upkeep and wake-ups
		others     = serverConns + 2
	)
	return processes*(pool+besidePool) + others
}

// per is about how long n jobs take at a rate in jobs/s, and what comes before them.
func per(n, rate int) time.Duration {
	return 300*time.Millisecond + time.Duration(n)*time.Second/time.Duration(rate)
}

// repeatedTakes is how long Repeated does.
func (b *Bench) repeatedTakes() time.Duration {
	return b.duration(repeatedWarm) + b.duration(repeatedTime) + 300*time.Millisecond
}

// thousands writes n with a comma before every three digits.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	var text strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			text.WriteByte(',')
		}
		text.WriteRune(c)
	}
	return text.String()
}

// round is d as people say it.
func round(d time.Duration) string {
	return fmt.Sprintf("%.3g s", d.Seconds())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the value below which the part p of the values lies. It sorts them.
func quantile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(p*float64(len(values))), len(values)-1)]
}
