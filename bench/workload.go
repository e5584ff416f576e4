package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// workload is something that all contenders do, in turns.
type workload struct {
	id         string // what --only names; several workloads may share it
	name       string
	sqlite     bool // needs no server
	rows       []row
	contenders []contender
}

// row is one of the figures that a run of a workload gives.
type row struct {
	key    string // in measured.figures
	name   string
	unit   string
	target string
	x      float64 // where it stands in a plot; 0: in none
}

// contender is one of those who do a workload. Their names are the table's columns.
type contender struct {
	name string
	run  func(context.Context, *bench) (measured, error)
}

const bare = "bare table"

// throughput are the rows of what timed measures.
func throughput(target string) []row {
	return []row{
		{key: "rate", name: "rate", unit: "jobs/s", target: target},
		{key: "server", name: "server CPU", unit: "us/job"},
		{key: "client", name: "client CPU", unit: "us/job"},
		{key: "wal", name: "log written", unit: "bytes/job"},
	}
}

func workloads() []workload {
	return slices.Concat(
		enqueueWorkloads(), drainWorkloads(), latencyWorkloads(), snapshotWorkloads(), depthWorkloads(),
		groupWorkloads(), singleWorkloads(), crowdWorkloads(), sqliteWorkloads(), processWorkloads(),
	)
}

// measure runs the workloads one after the other, each in rounds in which all of its
// contenders take their turn, so that what changes on the machine meanwhile meets all.
func (b *bench) measure(ctx context.Context, list []workload, r *results) error {
	for _, w := range list {
		done := map[string][]measured{}
		for round := range b.rounds {
			for _, c := range w.contenders {
				fmt.Fprintf(b.progress, "%-4s %-50s %d/%d  %-10s ", w.id, w.name, round+1, b.rounds, c.name)
				m, err := b.once(ctx, c)
				if err != nil {
					fmt.Fprintln(b.progress)
					return fmt.Errorf("%s, %s, %s: %w", w.id, w.name, c.name, err)
				}
				first := w.rows[0]
				fmt.Fprintf(b.progress, "%8s %s\n", short(m.figures[first.key]), first.unit)
				done[c.name] = append(done[c.name], m)
			}
		}
		r.add(w, done)
	}
	return nil
}

func (b *bench) once(ctx context.Context, c contender) (measured, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end within %v", patience))
	defer cancel()
	m, err := c.run(ctx, b)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return m, err
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
