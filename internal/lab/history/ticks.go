package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// everyTick is promise 10 of docs/guarantees.md. [Judge] leaves it out, since schedules enqueue their jobs
// without a call.
const everyTick = "Each tick of a schedule makes exactly one job."

// Ticks judges promise 10: the jobs of each schedule must be for consecutive ticks, from its first to its
// last. All schedules have a tick at each interval, and count every tick that was missed.
func Ticks(schedules []dibs.Schedule, jobs []*dibs.RawJob, interval time.Duration) Verdict {
	v := Verdict{Number: 10, Promise: everyTick}
	accuse := func(format string, args ...any) {
		v.Broken = append(v.Broken, Violation{Text: fmt.Sprintf(format, args...)})
	}
	ticks := map[string][]time.Time{}
	for _, j := range jobs {
		ticks[j.Schedule] = append(ticks[j.Schedule], j.Tick)
	}
	for _, s := range schedules {
		slices.SortFunc(ticks[s.Name], time.Time.Compare)
		want := s.Since
		for i, tick := range ticks[s.Name] {
			v.Checked++
			if want = want.Add(interval); !tick.Equal(want) {
				accuse("schedule %s: the job of place %d is for %v, want %v", s.Name, i, tick, want)
				break
			}
		}
		if !s.LastTick.Equal(want) {
			accuse("schedule %s: the last job is for %v, the last tick %v", s.Name, want, s.LastTick)
		}
		if next := want.Add(interval); !s.Next.Equal(next) {
			accuse("schedule %s: the next tick is %v, want %v", s.Name, s.Next, next)
		}
		delete(ticks, s.Name)
	}
	for name, more := range ticks {
		accuse("%d jobs are of schedule %q, which does not exist", len(more), name)
	}
	return v
}

// Periods judges unique keys for a period, as a part of promise 9: two jobs with the same key must be enqueued
// at least a period apart. The kind of each job is its key here, since a key is shown only while a job holds it.
func Periods(jobs []*dibs.RawJob, period time.Duration) Verdict {
	v := Verdict{Number: 9, Promise: promises[9], Checked: len(jobs)}
	jobs = slices.SortedFunc(slices.Values(jobs), func(a, b *dibs.RawJob) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.CreatedAt.Compare(b.CreatedAt))
	})
	for i := 1; i < len(jobs); i++ {
		a, b := jobs[i-1], jobs[i]
		if gap := b.CreatedAt.Sub(a.CreatedAt); a.Kind == b.Kind && gap < period {
			v.Broken = append(v.Broken, Violation{Job: b.ID, Text: fmt.Sprintf("jobs %d and %d of key %s were enqueued within %v, the period is %v", a.ID, b.ID, a.Kind, gap, period)})
		}
	}
	return v
}
