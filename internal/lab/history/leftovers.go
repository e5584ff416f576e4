package history

import (
	"slices"
	"time"
)

// leftovers judges the database at the end (promise 4): no job is there twice, and the
// store's own check found nothing.
func (j *judge) leftovers() {
	j.checked(4, 1)
	for _, finding := range j.Check {
		j.accuse(4, 0, nil, "the check of the database found: %s", finding)
	}
	seen := make(map[int64]bool, len(j.Final))
	for _, f := range j.Final {
		if seen[f.ID] {
			j.accuse(4, f.ID, nil, "job %d is there twice at the end", f.ID)
		}
		seen[f.ID] = true
	}
}

// Recoveries returns the times from the end of an abandoned lease to the next claim of the
// job, shortest first.
func Recoveries(e Evidence) []time.Duration {
	j := &judge{index: newIndex(&e)}
	var l life
	for n := range j.ids {
		j.rebuild(n, &l)
		for i := 1; i < len(l.attempts); i++ {
			j.noteRecovery(&l.attempts[i-1], &l.attempts[i])
		}
	}
	slices.Sort(j.recoveries)
	times := make([]time.Duration, len(j.recoveries))
	for i, us := range j.recoveries {
		times[i] = duration(us)
	}
	return times
}
