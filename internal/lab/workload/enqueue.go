package workload

import (
	"context"
	"fmt"
	"time"
)

// Enqueuers is the number of callers that enqueue in bulk: more than a small machine has
// cores, since every call waits for the disk, and a divisor of the number of chunks.
const Enqueuers = 5

// Numbers of jobs of W1 and W3 at scale 1.
const (
	bulkJobs     = 100_000
	wideBulkJobs = 20_000 // how many jobs are enqueued that have payloads of wideBytes or more
	wideBytes    = 10_000
)

// BulkJobs is the number of jobs of W1 and W3 with payloads of a size.
func (b *Bench) BulkJobs(size int) int {
	if size >= wideBytes {
		return b.Count(wideBulkJobs)
	}
	return b.Count(bulkJobs)
}

// bulk describes the jobs of W1 and W3.
func (b *Bench) bulk(size int) string {
	text := fmt.Sprintf("%s jobs of %d B", thousands(b.BulkJobs(size)), size)
	if size >= 1000 {
		text = fmt.Sprintf("%s jobs of %d kB", thousands(b.BulkJobs(size)), size/1000)
	}
	return text
}

// bulkTakes estimates how long W1 and W3 take, by the rate in jobs/s with small payloads.
func (b *Bench) bulkTakes(size, rate int) time.Duration {
	return timeFor(b.BulkJobs(size), rate/(1+size/1000))
}

// Bulk is W1: enqueue jobs in chunks.
func (b *Bench) Bulk(chunk, size int) Workload {
	return Workload{
		ID: "W1", Name: fmt.Sprintf("enqueue %s in chunks of %s", b.bulk(size), thousands(chunk)),
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: b.bulkTakes(size, 80_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				if err := o.Enqueue(ctx, letters(2)); err != nil { // opens a connection before the measurement
					return Measured{}, err
				}
				n := b.BulkJobs(size)
				return b.Timed(ctx, func() (int, error) { return n, fill(ctx, o, Letter(size), n, chunk) })
			})
		},
	}
}

const fillChunk = 1000

// fill enqueues n jobs with one payload in chunks.
func fill(ctx context.Context, s System, m Mail, n, chunk int) error {
	jobs := copies(m, min(chunk, n))
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
