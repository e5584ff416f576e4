package workload

import (
	"context"
	"fmt"
)

// Enqueuers is the number of callers that enqueue in bulk: more than a small machine has
// cores, since every call waits for the disk, and a divisor of the number of chunks.
const Enqueuers = 5

// bulkJobs is the number of jobs of W1 and W3 at scale 1.
const bulkJobs = 100_000

// BulkJobs is the number of jobs of W1 and W3.
func (b *Bench) BulkJobs() int { return b.Count(bulkJobs) }

// Bulk is W1: enqueue jobs in chunks.
func (b *Bench) Bulk(chunk int) Workload {
	return Workload{
		ID: "W1", Name: fmt.Sprintf("enqueue %s jobs in chunks of %s", thousands(b.BulkJobs()), thousands(chunk)),
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: timeFor(b.BulkJobs(), 80_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				if err := o.Enqueue(ctx, letters(2)); err != nil { // opens a connection before the measurement
					return Measured{}, err
				}
				n := b.BulkJobs()
				return b.Timed(ctx, func() (int, error) { return n, fill(ctx, o, n, chunk) })
			})
		},
	}
}

const fillChunk = 1000

// fill enqueues n jobs in chunks.
func fill(ctx context.Context, s System, n, chunk int) error {
	jobs := letters(min(chunk, n))
	return Share(ctx, Enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		return s.Enqueue(ctx, jobs[:min(chunk, n-i*chunk)])
	})
}

// Single is W2: enqueue one job with each call.
func (b *Bench) Single(callers int) Workload {
	return Workload{
		ID: "W2", Name: fmt.Sprintf("enqueue single jobs, %s callers", thousands(callers)),
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: b.repeatedTakes(),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				return b.Repeated(ctx, callers, func(ctx context.Context) error { return o.Enqueue(ctx, letters(1)) })
			})
		},
	}
}
