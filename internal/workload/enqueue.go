package workload

import (
	"context"
	"fmt"
)

// Enqueuers is how many callers bring a bulk of jobs at once: more than a small machine
// has cores, as every call waits for the disk, and such that all get as many chunks.
const Enqueuers = 5

// bulkJobs are the jobs of one drain or bulk.
const bulkJobs = 100_000

// BulkJobs is how many jobs W1 and W3 have.
func (b *Bench) BulkJobs() int { return b.Count(bulkJobs) }

// Bulk is W1: jobs in chunks.
func (b *Bench) Bulk(chunk int) Workload {
	return Workload{
		ID: "W1", Name: fmt.Sprintf("enqueue %s jobs in chunks of %s", thousands(b.BulkJobs()), thousands(chunk)),
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: per(b.BulkJobs(), 80_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.with(ctx, p, false, func(o *opened) (Measured, error) {
				if err := o.Enqueue(ctx, letters(2)); err != nil { // connects
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

// Single is W2: one job with each call.
func (b *Bench) Single(callers int) Workload {
	return Workload{
		ID: "W2", Name: fmt.Sprintf("enqueue single jobs, %s callers", thousands(callers)),
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: b.repeatedTakes(),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.with(ctx, p, false, func(o *opened) (Measured, error) {
				return b.Repeated(ctx, callers, func(ctx context.Context) error { return o.Enqueue(ctx, letters(1)) })
			})
		},
	}
}
