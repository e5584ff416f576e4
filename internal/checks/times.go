package checks

import (
	"math"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// Times computes admin.Times of jobs that waited and ran for these times, in microseconds.
func Times(since time.Time, wait, run []int64) admin.Times {
	t := admin.Times{Jobs: len(wait), Wait: percentiles(wait), Run: percentiles(run)}
	if t.Jobs > 0 {
		t.Since = Time(since)
	}
	return t
}

// percentiles computes percentiles by nearest rank, so each is a time that one of the jobs took.
func percentiles(all []int64) (p admin.Percentiles) {
	if len(all) == 0 {
		return p
	}
	slices.Sort(all)
	rank := func(percent int) time.Duration {
		return max(0, Micros(all[(len(all)*percent+99)/100-1]))
	}
	return admin.Percentiles{P50: rank(50), P95: rank(95), P99: rank(99)}
}

// Micros is a duration of so many microseconds: at most 292 years, the longest that there is.
func Micros(us int64) time.Duration {
	return time.Duration(max(min(us, math.MaxInt64/1000), math.MinInt64/1000)) * time.Microsecond
}
