package history

import (
	"cmp"
	"slices"
)

// limited reports whether the queue's concurrency was ever limited.
func (l *lane) limited() bool {
	least, _ := l.concurrency.between(0, never)
	return least < unlimited
}

// limits judges the first half of promise 6: how many jobs ran at once.
func (j *judge) limits() {
	queues := make(map[string][]run)
	for c, m := range j.crowds {
		lane := j.lane(c.queue)
		if c.group != "" {
			j.checkLimit(m.runs, "group "+quote(c.group)+" of queue "+quote(c.queue), func(lo, hi int64) int64 {
				_, most := lane.groupLimits(c.group, lo, hi)
				return most
			})
		}
		if lane.limited() {
			queues[c.queue] = append(queues[c.queue], m.runs...)
		}
	}
	for name, runs := range queues {
		j.checkLimit(runs, "queue "+quote(name), func(lo, hi int64) int64 {
			_, most := j.lane(name).concurrency.between(lo, hi)
			return most
		})
	}
}

func quote(s string) string { return `"` + s + `"` }

// checkLimit counts the jobs that certainly run when each claim is answered. The last of them
// started during that claim's call, so a limit that may have been in force during the
// call must allow them all. A resumed job keeps its place, so resumes are not judged.
func (j *judge) checkLimit(runs []run, where string, most func(lo, hi int64) int64) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.end <= r.hi })
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.hi, b.hi) })
	ends := make([]int64, len(runs))
	for i := range runs {
		ends[i] = runs[i].end
	}
	slices.Sort(ends)
	ended := 0
	for i := range runs {
		r := &runs[i]
		for ended < len(ends) && ends[ended] <= r.hi {
			ended++
		}
		if r.resume || i+1 < len(runs) && runs[i+1].hi == r.hi {
			continue // a call that returned several jobs is judged once, at the last of them
		}
		j.checked(6, 1)
		limit := most(r.lo, r.hi)
		if n := int64(i + 1 - ended); n > limit {
			var calls []int32
			for k := range runs[:i+1] {
				if runs[k].end > r.hi {
					calls = append(calls, runs[k].call)
				}
			}
			j.accuse(6, r.id, calls, "%d jobs of %s ran at once at %s, when job %d had been given out, and the limit was %d at most", n, where, timeText(r.hi), r.id, limit)
		}
	}
}
