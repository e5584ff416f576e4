package bucket

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"pgregory.net/rapid"
)

// TestNoWindowHasMore takes all that a bucket gives at random times, and counts every window.
func TestNoWindowHasMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dibs.Rate{
			N:     rapid.IntRange(1, 300).Draw(t, "n"),
			Per:   time.Second * time.Duration(rapid.IntRange(1, 100).Draw(t, "per")),
			Burst: rapid.IntRange(0, 40).Draw(t, "burst"),
		}
		b := Of(r)
		now, full := int64(1_700_000_000_000_000_000), int64(0)
		var starts []int64
		for range rapid.IntRange(1, 200).Draw(t, "claims") {
			now += rapid.Int64Range(0, int64(r.Per)/rapid.Int64Range(1, 200).Draw(t, "part")).Draw(t, "pause")
			n := min(b.Free(full, now), rapid.Int64Range(0, 400).Draw(t, "wanted"))
			if n > 0 {
				full = b.After(full, now, n)
			}
			for range n {
				starts = append(starts, now)
			}
			if next := b.Next(full, now, 1); b.Free(full, next) < 1 || next > now && b.Free(full, next-1) > 0 {
				t.Fatalf("the next start is said to be at %d, when %d are allowed", next, b.Free(full, next))
			}
		}
		first := 0
		for i, at := range starts {
			for starts[first] <= at-int64(r.Per) {
				first++
			}
			if n := i - first + 1; n > r.N+r.Burst {
				t.Fatalf("%d starts within %v, allowed are %d + %d", n, r.Per, r.N, r.Burst)
			}
		}
	})
}

// TestCloseToTheRate takes starts a few milliseconds late, for a hundred periods.
func TestCloseToTheRate(t *testing.T) {
	for _, r := range []dibs.Rate{
		{N: 1, Per: time.Second},
		{N: 10, Per: time.Second},
		{N: 20, Per: time.Second, Burst: 1},
		{N: 33, Per: time.Second},
		{N: 1000, Per: time.Second},
		{N: 100_000, Per: time.Second},
		{N: 100, Per: time.Minute, Burst: 10},
		{N: 7, Per: time.Hour},
	} {
		b, late := Of(r), int64(3*time.Millisecond)
		full, now, n := int64(0), int64(1_700_000_000_000_000_000), int64(0)
		for end := now + 100*int64(r.Per); now < end; {
			free := b.Free(full, now)
			full = b.After(full, now, free)
			n += free
			now = max(b.Next(full, now, 1), now+int64(5*time.Millisecond)) + late
		}
		if part := float64(n) / float64(100*r.N); part < 0.95 || part > 1+float64(r.Burst+1)/float64(100*r.N)+0.01 {
			t.Errorf("%+v: %.3f of the rate", r, part)
		}
	}
}
