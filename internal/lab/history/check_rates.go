package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// rates is a rate over time.
type rates struct {
	start   dibs.Rate
	changes []rateChange // sorted by lo
}

// rateChange is a rate that took effect between lo and hi. If hi is never, it may not have.
type rateChange struct {
	lo, hi int64
	rate   dibs.Rate
}

func (l *lane) rate(group string) *rates {
	r := l.rates[group]
	if r == nil {
		r = &rates{}
		l.rates[group] = r
	}
	return r
}

// at returns the rate that was certainly in force from lo to hi, and the latest time at which it can have begun;
// ok is false if there is no such rate.
func (r *rates) at(lo, hi int64) (rate dibs.Rate, since int64, ok bool) {
	rate = r.start
	for _, c := range r.changes {
		switch {
		case c.lo > hi:
			return rate, since, true
		case c.hi >= lo:
			return rate, since, false
		}
		rate, since = c.rate, max(since, c.hi)
	}
	return rate, since, true
}

// rated reports whether the queue, or one of its groups, ever had a rate.
func (l *lane) rated(group string) bool {
	r := l.rates[group]
	return r != nil && (r.start.N > 0 || len(r.changes) > 0)
}

// starts judges that no queue and no group had more starts than its rate allows. It allows N + Burst in any
// time shorter than Per, by the database's clock. Starts before the last change of the rate are not judged.
func (j *judge) starts() {
	of := make(map[crowd][]run)
	add := func(c crowd, runs []run) {
		if j.lane(c.queue).rated(c.group) {
			of[c] = append(of[c], slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.at == 0 })...)
		}
	}
	for c, m := range j.crowds {
		add(crowd{queue: c.queue}, m.runs)
		if c.group != "" {
			add(c, m.runs)
		}
	}
	for c, runs := range of {
		slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.at, b.at) })
		where := "queue " + quote(c.queue)
		if c.group != "" {
			where = "group " + quote(c.group) + " of " + where
		}
		j.checkRate(runs, where, j.lane(c.queue).rates[c.group])
	}
}

func (j *judge) checkRate(runs []run, where string, r *rates) {
	first := 0 // runs before this one are not judged
	for i := range runs {
		last := &runs[i]
		rate, since, ok := r.at(last.lo, last.hi)
		if !ok || rate.N == 0 {
			first = i + 1
			continue
		}
		for runs[first].at <= last.at-rate.Per.Microseconds() || runs[first].lo <= since {
			if first++; first > i {
				break
			}
		}
		j.checked(6, 1)
		if n := i - first + 1; n > rate.N+rate.Burst {
			j.accuse(6, last.id, []int32{runs[first].call, last.call}, "%d jobs of %s started within %v, the last of them job %d at %s, and its rate was %d with a burst of %d", n, where, rate.Per, last.id, timeText(last.lo), rate.N, rate.Burst)
			first = i + 1
		}
	}
}
