package history

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dibs-queue/dibs"
)

// perJob bounds how long one job's history is searched.
const perJob = time.Second

// Linearizable looks, for each job, for one order of the calls about it in which a
// single job, used by one client after another, would have given the same answers. It
// is a second opinion on promises 2 and 3, by a general checker that knows nothing of
// the others. Undecided are the jobs for which the search took too
// long, and those of which somebody without an answer had an attempt.
func Linearizable(e Evidence) (checked, undecided int, broken []Violation) {
	j := &judge{index: newIndex(&e)}
	var mu sync.Mutex
	var wait sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			var l life
			for n := range next {
				j.live(n, &l)
				if l.born.call < 0 && l.final == nil && len(l.attempts) == 0 {
					continue // somebody asked for a job that there never was
				}
				result := porcupine.Unknown
				if l.complete() {
					result = porcupine.CheckOperationsTimeout(jobModel, l.operations(), perJob)
				}
				mu.Lock()
				switch result {
				case porcupine.Ok:
					checked++
				case porcupine.Unknown:
					undecided++
				case porcupine.Illegal:
					checked++
					if len(broken) < MaxBroken {
						broken = append(broken, Violation{
							Job: l.id, Calls: j.show(l.calls()),
							Text: "no order of the calls about this job explains their answers",
						})
					}
				}
				mu.Unlock()
			}
		})
	}
	for n := range j.ids {
		next <- n
	}
	close(next)
	wait.Wait()
	slices.SortFunc(broken, func(a, b Violation) int { return int(a.Job - b.Job) })
	return checked, undecided, broken
}

// jobState is a single job between two calls.
type jobState struct {
	state   dibs.State // empty: not enqueued
	attempt int
	token   dibs.Token // while it is running
	asked   bool       // to stop, while it is running
}

// step is one call about a job. Times are those of the call itself.
type step struct {
	verb    Verb
	lo, hi  int64
	outcome int
	token   dibs.Token
	attempt int
	ending  dibs.State // what a finish makes of the job
	gives   bool       // of finish: it gives the job back, unless somebody asked to cancel it
	asked   bool       // of cancel: it was told that the job was running
	maybe   bool       // it may not have happened
	leases  map[dibs.Token]lease
}

// lease is when a token's lease ended, and whether the job had attempts left then.
type lease struct {
	lo, hi int64
	last   bool
}

// observed is the pseudo-verb of what is found at the end.
const observed Verb = "observed"

var jobModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{jobState{}} },
	Step: func(state, input, _ any) []any {
		s, in := state.(jobState), input.(*step)
		var next []any
		for _, before := range in.passed(s) {
			if after, ok := in.apply(before); ok {
				next = append(next, after)
			}
		}
		if in.maybe {
			next = append(next, s)
		}
		return next
	},
}).ToModel()

// passed are the states that time may have made of s by the end of the call.
func (in *step) passed(s jobState) []jobState {
	l, ok := in.leases[s.token]
	if s.state != dibs.Running || !ok || in.hi < l.lo {
		return []jobState{s}
	}
	expired := jobState{state: dibs.Waiting, attempt: s.attempt}
	switch {
	case s.asked:
		expired.state = dibs.Cancelled
	case l.last:
		expired.state = dibs.Dead
	}
	return []jobState{s, expired}
}

// apply is what the call makes of a job in the state s, if it can have been answered
// so.
func (in *step) apply(s jobState) (after jobState, ok bool) {
	holds := s.state == dibs.Running && s.token == in.token
	after = s
	switch in.verb {
	case Enqueue:
		return jobState{state: dibs.Waiting}, s.state == ""
	case Claim, Resume:
		from := dibs.Waiting
		if in.verb == Resume {
			from = dibs.Running
		}
		after = jobState{state: dibs.Running, attempt: in.attempt, token: in.token}
		return after, s.state == from && s.attempt+1 == in.attempt
	case Finish, Extend:
		if in.outcome == refused {
			return s, !holds || in.hi >= in.leases[in.token].lo
		}
		if in.verb == Finish {
			after = jobState{state: in.ending, attempt: s.attempt}
			if s.asked && in.gives {
				after.state = dibs.Cancelled
			}
		}
		return after, holds && in.leases[in.token].hi >= in.lo
	case Cancel:
		if s.state == dibs.Running && (in.asked || in.maybe) {
			after.asked = true
			return after, true
		}
		return jobState{state: dibs.Cancelled, attempt: s.attempt}, s.state == dibs.Waiting && !in.asked
	case Requeue:
		return jobState{state: dibs.Waiting, attempt: s.attempt}, s.state.Final()
	default: // observed
		return s, s.state == in.ending && s.attempt == in.attempt
	}
}
