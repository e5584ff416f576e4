package history

import (
	"slices"
	"sort"

	"github.com/dibs-queue/dibs"
)

// FairTurns is the part of promise 7 about queues with order fair. It has a verdict of its own, since most runs do not
// try it.
const FairTurns = "In a fair queue groups take turns: before a job that is the only waiting one of its group, at most one job of each other group starts."

// turnsVerdict is the place of that verdict.
const turnsVerdict = 14

// turnJob is a job of a group in a fair queue.
type turnJob struct {
	id       int64
	born     int32   // the call that enqueued it; -1: none is known
	start    int32   // the claim of its first attempt; -1: none is recorded
	from, to int64   // it was surely not seen before, and had surely ended by then
	single   bool    // the promise speaks of it if no other job of its group is there
	back     periods // when it may have waited at a place that it had before
}

func (t *turnJob) cameBack(from, to int64) {
	if from <= to {
		t.back.add(from, to)
	}
}

// noteTurns notes what the turns of fair queues have to do with the job.
func (j *judge) noteTurns(l *life) {
	n := l.newJob()
	if _, fair := j.lane(l.queue).fair.between(0, never); fair == 0 || l.group == "" ||
		n != nil && j.spans[l.born.call].fate == Nothing && len(l.attempts) == 0 {
		return
	}
	t := &turnJob{id: l.id, born: l.born.call, start: -1, to: never}
	if n != nil {
		t.from = j.spans[t.born].seenLo
	}
	if l.final != nil && l.final.State.Final() {
		_, t.to = j.clock.client(l.final.FinishedAt)
	}
	number := 0
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt > number+1 { // an attempt is missing
			t.cameBack(t.from, a.hi)
		}
		number = a.Attempt
		if a.Attempt == 1 && a.fate == Done && j.Calls[a.call].Verb == Claim {
			t.start = a.call
		}
		if !j.losesTurn(l, a) {
			next := t.to
			if i+1 < len(l.attempts) {
				next = l.attempts[i+1].hi
			}
			t.cameBack(a.endLo, next)
		}
	}
	if l.final == nil || l.final.Attempt != number {
		t.cameBack(t.from, t.to)
	}
	t.back.sort()
	t.single = n != nil && n.Delay == 0 && n.RunAt.IsZero() && len(n.After) == 0 && n.UniqueKey == "" && len(l.changes) == 0 &&
		j.spans[t.born].fate == Done && t.start >= 0 && l.attempts[0].call == t.start
	c := crowd{l.queue, l.group}
	if j.turnJobs == nil {
		j.turnJobs = make(map[crowd][]*turnJob)
	}
	j.turnJobs[c] = append(j.turnJobs[c], t)
}

// losesTurn reports whether the attempt certainly ended in a way after which the job has no turn, or takes a new one.
func (j *judge) losesTurn(l *life, a *attempt) bool {
	_, strict := j.lane(l.queue).strict.between(0, never)
	return !a.rolledBack() && slices.ContainsFunc(a.finishes, func(e event) bool {
		o := j.outcomeOf(e)
		return j.outcome(e) == accepted && (a.finalState(o) != "" || o.Ending != dibs.EndRelease && strict == 0)
	})
}

// turns judges the second part of promise 7: how many jobs of each other group start before one that is alone in its
// group. Left out are groups of which a job may have come back at its old place, or whose limit may have changed,
// and queues whose groups may have rates.
func (j *judge) turns() {
	if len(j.turnJobs) == 0 {
		return
	}
	givers, claims := j.placeGivers(), j.turnClaims()
	paced := make(map[string]bool)
	for c := range j.turnJobs {
		if _, known := paced[c.queue]; !known {
			paced[c.queue] = j.groupsPaced(c.queue)
		}
	}
	for c, jobs := range j.turnJobs {
		if paced[c.queue] {
			continue
		}
		for _, t := range jobs {
			if t.single {
				j.turnsBefore(c, t, claims[c.queue], givers)
			}
		}
	}
}

// groupsPaced reports whether groups of the queue may have had rates.
func (j *judge) groupsPaced(queue string) bool {
	l := j.lane(queue)
	for group := range l.rates {
		if group != "" && l.rated(group) {
			return true
		}
	}
	return slices.ContainsFunc(j.Queues, func(q dibs.Queue) bool { return q.Name == queue && q.GroupRate.N > 0 }) ||
		slices.ContainsFunc(j.Calls, func(c *Call) bool {
			return c.Queue == queue && c.Settings != nil && c.Settings.GroupRate != nil
		})
}

// turnsBefore judges how many jobs of other groups start before the job t of the group c. The calls that claimed them
// began after the enqueue call of t was answered, and had ended before the claim of t began.
func (j *judge) turnsBefore(c crowd, t *turnJob, claims []turnClaim, givers *endings) {
	l := j.lane(c.queue)
	enqueued, claim := &j.spans[t.born], &j.spans[t.start]
	from, to := enqueued.seenHi, claim.lo
	if fair, _ := l.fair.between(enqueued.lo, claim.hi); fair == 0 || !j.limitStays(c, enqueued.lo, claim.hi) || j.inCompany(c, t, claim.hi) {
		return
	}
	placed := firstAnswer(claims, from)
	if j.ClaimsAtOnce {
		// Another call may just have given places, and have begun before the job was there. Who gives places after it
		// has ended sees the job.
		placed = givers.latest(placed)
		placed = givers.latest(firstAnswer(claims, placed))
	}
	type starts struct {
		all, late int64 // late: after t certainly had its place
		calls     []int32
	}
	groups := make(map[string]*starts)
	for i := firstFrom(claims, from); i < len(claims) && claims[i].lo < to; i++ {
		z := &claims[i]
		if !z.sure || z.hi >= to {
			continue
		}
		for k := range j.Calls[z.call].Jobs {
			job := &j.Calls[z.call].Jobs[k]
			if job.Attempt != 1 || job.Group == "" || job.Group == c.group {
				continue
			}
			g := groups[job.Group]
			if g == nil {
				g = &starts{}
				groups[job.Group] = g
			}
			g.all++
			if z.lo > placed {
				g.late++
			}
			g.calls = append(g.calls, z.call)
		}
	}
	for name, g := range groups {
		other := crowd{c.queue, name}
		if !j.limitStays(other, enqueued.lo, claim.hi) || j.cameBack(other, enqueued.lo, claim.hi) {
			continue
		}
		most := int64(1)
		if j.ClaimsAtOnce {
			_, most = l.groupLimits(name, enqueued.lo, claim.hi)
		}
		j.checked(turnsVerdict, 1)
		if g.late <= most && g.all <= most+1 {
			continue
		}
		j.accuse(turnsVerdict, t.id, append(g.calls, t.born, t.start), "%d jobs of group %s of queue %s started before job %d, the only one of group %s, from when that was enqueued at %s until it was claimed at %s, %d of them when it certainly had its place", g.all, quote(name), quote(c.queue), t.id, quote(c.group), timeText(from), timeText(to), g.late)
	}
}

// limitStays reports whether the limit of a group was certainly the same from lo to hi.
func (j *judge) limitStays(c crowd, lo, hi int64) bool {
	least, most := j.lane(c.queue).groupLimits(c.group, lo, hi)
	return least == most
}

// inCompany reports whether another job of the group may have been there before the job t had started.
func (j *judge) inCompany(c crowd, t *turnJob, started int64) bool {
	return slices.ContainsFunc(j.turnJobs[c], func(o *turnJob) bool { return o != t && o.from <= started && o.to >= t.from })
}

// cameBack reports whether a job of the group may have waited, at some time from lo to hi, at a place that it had
// before.
func (j *judge) cameBack(c crowd, lo, hi int64) bool {
	return slices.ContainsFunc(j.turnJobs[c], func(t *turnJob) bool { return t.back.mostAtOnce(lo, hi) > 0 })
}

// turnClaim is an answered claim from a fair queue that took jobs.
type turnClaim struct {
	call   int32
	lo, hi int64
	sure   bool // it asked for all kinds, and no other claim may have locked jobs without taking them
}

// turnClaims lists claims by their queues, in the order of lo.
func (j *judge) turnClaims() map[string][]turnClaim {
	all := make(map[string][]turnClaim)
	locks := make(map[string]*endings) // claims that may lock a job without taking it
	for i, c := range j.Calls {
		if c.Verb != Claim {
			continue
		}
		s := &j.spans[i]
		if c.Fate == Done && len(c.Jobs) > 0 {
			all[c.Queue] = append(all[c.Queue], turnClaim{int32(i), s.lo, s.hi, c.Tx == "" && !c.Kinds})
		}
		if c.Fate == Unknown || c.Tx != "" {
			if locks[c.Queue] == nil {
				locks[c.Queue] = &endings{}
			}
			locks[c.Queue].add(s.lo, s.unlockedBy)
		}
	}
	for queue, e := range locks {
		for i := range all[queue] {
			z := &all[queue][i]
			z.sure = z.sure && e.latest(z.hi) < z.lo
		}
	}
	return all
}

func firstFrom(claims []turnClaim, at int64) int {
	return sort.Search(len(claims), func(i int) bool { return claims[i].lo > at })
}

// firstAnswer returns when the first of the claims was answered that began after the time at; never if there is none.
func firstAnswer(claims []turnClaim, at int64) int64 {
	first := int64(never)
	for i := firstFrom(claims, at); i < len(claims) && claims[i].lo < first; i++ {
		if claims[i].sure {
			first = min(first, claims[i].hi)
		}
	}
	return first
}

// placeGivers lists the calls that may give places to groups.
func (j *judge) placeGivers() *endings {
	var e endings
	for i, c := range j.Calls {
		switch c.Verb {
		case Claim, Resume, Sweep, SetQueue, SetGroup:
			e.add(j.spans[i].lo, j.spans[i].unlockedBy)
		}
	}
	return &e
}

// endings says for calls, in the order in which they began, when each of them and all before it had ended.
type endings struct{ lo, end []int64 }

func (e *endings) add(lo, end int64) {
	e.lo, e.end = append(e.lo, lo), append(e.end, max(end, e.latest(never)))
}

// latest returns when all calls that began by the time at had certainly ended.
func (e *endings) latest(at int64) int64 {
	n := sort.Search(len(e.lo), func(i int) bool { return e.lo[i] > at })
	if n == 0 {
		return 0
	}
	return e.end[n-1]
}
