// Package workload measures how fast a job queue enqueues, claims and finishes, and what
// that costs. dibs bench runs the workloads on dibs; the module in bench runs them on
// another queue too.
package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Workload is one kind of measurement.
type Workload struct {
	ID   string // similar workloads share it
	Name string
	Rows []Row

	Postgres bool          // on PostgreSQL only
	Conns    int           // number of connections that it needs on a PostgreSQL server
	Takes    time.Duration // estimated duration on a small machine
	Run      func(context.Context, *Bench, Product) (Measured, error)
}

// Row describes one of the figures of a workload.
type Row struct {
	Key  string // key in Measured.Figures
	Name string
	Unit string
	X    float64 // position in a plot; 0: in no plot
}

// Measured is the result of one run of a workload.
type Measured struct {
	Figures map[string]float64 // figures by Row.Key; those that are not known are missing
	Series  []float64          // W5: jobs/s in equal parts of the time
}

// All lists the workloads of dibs.
func All(b *Bench) []Workload {
	var bulks, drains []Workload
	for _, size := range Sizes {
		bulks = append(bulks, b.Bulk(1000, size))
		drains = append(drains, b.Drain(size, true), b.Drain(size, false))
	}
	return slices.Concat(
		bulks,
		[]Workload{b.Bulk(10_000, LetterBytes), b.Single(64), b.Single(1000)},
		drains,
		[]Workload{
			b.FewHandlers(), b.Latency(false, false), b.Latency(false, true), b.Latency(true, false),
			b.ClosedLoop(true), b.ClosedLoop(false), b.Writers(), b.Depth(),
		},
		b.Groups(),
		[]Workload{b.HotGroup(), b.Lives(), b.Crowd(), b.FirstJob(false), b.FirstJob(true), b.Chains(false), b.Chains(true), b.Fans(), b.Hops(), b.WorkerProcess()},
	)
}

// throughput lists the rows that Timed measures.
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

// cost lists the rows of Timed for a loop with a pace of its own.
func cost() []Row {
	return slices.DeleteFunc(throughput(), func(r Row) bool { return r.Key == "client" || r.Key == "allocs" })
}

// conns returns how many connections the given number of processes, each with a pool, and this process use
// together.
func conns(processes, pool int) int {
	const (
		besidePool = 3 // a store's connections for upkeep and wake-ups
		others     = serverConns + 2
	)
	return processes*(pool+besidePool) + others
}

// timeFor estimates how long n jobs take at a rate in jobs/s, with their preparation.
func timeFor(n, rate int) time.Duration {
	return 300*time.Millisecond + time.Duration(n)*time.Second/time.Duration(rate)
}

// repeatedTakes is the duration of Repeated.
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

// round formats d in seconds with three digits.
func round(d time.Duration) string {
	return fmt.Sprintf("%.3g s", d.Seconds())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the value below which the part p of the values lies. It sorts them.
func quantile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(p*float64(len(values))), len(values)-1)]
}
