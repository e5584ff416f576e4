package history

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/dibs-queue/dibs"
)

// Recoveries returns the times from the end of an abandoned lease to the next claim of the job,
// shortest first: all of them, and those of jobs that nothing held up.
func Recoveries(e Evidence) (all, unhindered []time.Duration) {
	r := recoveries{judge: &judge{index: newIndex(&e)}, starts: make(map[string][]start)}
	var l life
	for n := range r.ids {
		r.rebuild(n, &l)
		for i := range l.attempts {
			a := &l.attempts[i]
			r.starts[l.queue] = append(r.starts[l.queue], start{rankOf(a.Job), a.Token, micros(a.ClaimedAt)})
			if i > 0 {
				r.note(&l, &l.attempts[i-1], a)
			}
		}
	}
	for _, starts := range r.starts {
		slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.at, b.at) })
	}
	r.free = slices.DeleteFunc(r.free, func(again recovery) bool { return r.overtaken(&again) })
	for _, again := range r.free {
		unhindered = append(unhindered, duration(again.at-again.leaseEnded))
	}
	for _, us := range r.all {
		all = append(all, duration(us))
	}
	slices.Sort(all)
	slices.Sort(unhindered)
	return all, unhindered
}

type recoveries struct {
	*judge
	starts map[string][]start // the starts of each queue
	all    []int64            // microseconds from the end of a lease to the next claim
	free   []recovery         // those that nothing but perhaps a better job held up
}

// start is when an attempt began by the database's clock. It may have been rolled back.
type start struct {
	rank
	token dibs.Token
	at    int64
}

// recovery is a start of a job whose lease had ended, by the database's clock.
type recovery struct {
	start
	queue      string
	leaseEnded int64
}

// note notes how long after the end of an abandoned lease the job was claimed again. Nothing held it up
// if it is in no group, its lease was not extended, and meanwhile the server was not away, nor the queue
// paused; nor may that ever have had a limit or a rate.
func (r *recoveries) note(l *life, a, b *attempt) {
	if a.inTx(r.index) || a.fate != Done || b.fate != Done || a.Attempt+1 != b.Attempt || r.Calls[b.call].Verb != Claim {
		return
	}
	if slices.ContainsFunc(a.finishes, func(e event) bool { return r.outcome(e) <= open }) {
		return
	}
	from, to := r.clock.client(b.ClaimedAt)
	if len(a.extends) > 0 {
		if a.leaseLo < never {
			r.all = append(r.all, max(0, from-a.leaseLo))
		}
		return
	}
	again := recovery{start{rankOf(b.Job), b.Token, micros(b.ClaimedAt)}, l.queue, micros(a.LeaseUntil)}
	r.all = append(r.all, again.at-again.leaseEnded)
	queue := r.lane(l.queue)
	from, _ = r.clock.client(a.LeaseUntil)
	_, paused := queue.paused.between(from, to)
	hindered := l.group != "" || queue.limited() || queue.rated("") || paused == 1 || r.serverAway(from, to)
	if !hindered && r.Calls[a.call].Verb == Claim && again.at >= again.leaseEnded { // a resume may come before the lease ends
		r.free = append(r.free, again)
	}
}

// overtaken reports whether a better job started between the end of the lease and the start.
func (r *recoveries) overtaken(again *recovery) bool {
	starts := r.starts[again.queue]
	after := sort.Search(len(starts), func(i int) bool { return starts[i].at > again.leaseEnded })
	for _, s := range starts[after:] {
		if s.at >= again.at {
			break
		}
		if s.token != again.token && (s.priority < again.priority || s.priority == again.priority && s.runAt < again.runAt) {
			return true
		}
	}
	return false
}
