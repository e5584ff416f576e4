// Package bucket turns a rate into the two numbers that its bucket of starts needs.
//
// A bucket is one time, "full": when it will have saved up as many starts as it can hold. Each
// start moves that time on by Step, counted from now if it has passed. A start is allowed while
// it is at most Slack away. This is the generic cell rate algorithm of ITU-T I.371, which calls
// the time "theoretical arrival time".
//
// In a time shorter than Per at most Slack/Step + 1 starts come from what was saved up, and
// one for each whole Step of it: N + Burst at most.
package bucket

import "github.com/dibs-queue/dibs"

// Bucket is the shape of a rate's bucket, in nanoseconds.
type Bucket struct {
	Step  int64 // the time in which one start is saved up; 0: no rate
	Slack int64 // how far the bucket may be from full for another start
}

// A rate loses the moments by which workers are late, unless starts that came late can be
// made up for. So a bucket holds at least 3 % of N, and is filled slower in turn.
const (
	sparePercent = 3
	spareFrom    = 25 // below so many per period the moments are short beside a step
)

// Of is the bucket of a rate.
func Of(r dibs.Rate) Bucket {
	if r.N == 0 {
		return Bucket{}
	}
	saved, perPeriod := int64(r.Burst), int64(r.N)
	if spare := (perPeriod*sparePercent + 99) / 100; r.N >= spareFrom && saved < spare {
		perPeriod -= spare - saved
		saved = spare
	}
	step := (int64(r.Per) + perPeriod - 1) / perPeriod
	return Bucket{Step: step, Slack: saved * step}
}

// Owed is full, without what the bucket owes more than a whole filling: from a slower rate that
// it had before, or from a clock that was ahead. If that is less than full, it is to be stored,
// since it counts from now. So now must not be before the starts that full counts: they would be forgotten in part.
func (b Bucket) Owed(full, now int64) int64 { return min(full, now+b.Slack+b.Step) }

// Free is how many starts are allowed now, if the bucket will be full at the given time.
func (b Bucket) Free(full, now int64) int64 {
	full = max(full, now)
	if full-now > b.Slack {
		return 0
	}
	return (now+b.Slack-full)/b.Step + 1
}

// After is when the bucket will be full after n starts at the time now.
func (b Bucket) After(full, now, n int64) int64 { return max(full, now) + n*b.Step }

// Next is when the n-th start from now on is allowed.
func (b Bucket) Next(full, now, n int64) int64 {
	return max(now, max(full, now)+(n-1)*b.Step-b.Slack)
}
