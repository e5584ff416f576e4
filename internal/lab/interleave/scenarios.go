package interleave

import (
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// scenarios are the programs: two or three workers, a sweeper, an operator and time,
// around three jobs. The actors make few calls, so that all orders can be run.
var scenarios = slices.Concat(plain, grouped, transactions, flows)

var plain = []Scenario{
	{"claims beside an enqueue", func(s *Setup) {
		s.Add(jobs(3)...)
	}, []Actor{
		{"worker 1", claims(2)},
		{"worker 2", claimsAndCompletes(2)},
		{"producer", func(c *Client, _ *Setup) { c.Enqueue(dibs.NewJob{Priority: new(1)}, dibs.NewJob{}) }},
	}},
	{"a finish past the lease", held(1, 2), []Actor{
		{"worker 1", completes},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(3)},
	}},
	{"an extension past the lease", held(1, 1), []Actor{
		{"worker 1", func(c *Client, s *Setup) { c.Extend(s.Held...) }},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(3)},
	}},
	{"the last attempt past the lease", func(s *Setup) {
		s.Set(dibs.QueueChange{MaxAttempts: new(1)})
		held(1, 1)(s)
	}, []Actor{
		{"worker 1", func(c *Client, s *Setup) { c.Finish(s.Held[0].Lease().Retry("e")) }},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"operator", func(c *Client, s *Setup) { c.Cancel(s.IDs[0]) }},
	}},
	{"a limit of 1 that is raised", func(s *Setup) {
		s.Set(dibs.QueueChange{Concurrency: new(1)})
		held(1, 2)(s)
	}, []Actor{
		{"worker 1", completes},
		{"worker 2", claims(2)},
		{"worker 3", claims(2)},
		{"operator", set(dibs.QueueChange{Concurrency: new(2)})},
	}},
	{"a limit of 1 that is set", held(1, 2), []Actor{
		{"worker 1", completes},
		{"worker 2", claims(1)},
		{"operator", set(dibs.QueueChange{Concurrency: new(1)})},
		{"worker 3", claims(1)},
	}},
	{"a limit of 1 and a lease that ends", func(s *Setup) {
		s.Set(dibs.QueueChange{Concurrency: new(1)})
		held(1, 2)(s)
	}, []Actor{
		{"worker 1", finishes(dibs.Lease.Release)},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(2)},
		{"worker 3", claims(2)},
	}},
	{"a cancel beside a retry", held(1, 1), []Actor{
		{"operator", func(c *Client, s *Setup) { c.Cancel(s.IDs...) }},
		{"worker 1", func(c *Client, s *Setup) { c.Finish(s.Held[0].Lease().RetryAfter(0, "e")) }},
		{"worker 2", claimsAndCompletes(2)},
	}},
	{"a pause beside claims", func(s *Setup) {
		s.Add(jobs(3)...)
	}, []Actor{
		{"worker 1", claims(2)},
		{"operator", func(c *Client, s *Setup) {
			set(dibs.QueueChange{Paused: new(true)})(c, s)
			set(dibs.QueueChange{Paused: new(false)})(c, s)
		}},
		{"worker 2", claims(2)},
	}},
	{"a resume beside its predecessor", held(2, 1), []Actor{
		{"worker 1", completes},
		{"again", func(c *Client, _ *Setup) {
			c.Resume("worker 1")
			c.Complete()
		}},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
	}},
	{"an edit beside claims", func(s *Setup) {
		s.Add(jobs(3)...)
	}, []Actor{
		{"operator", func(c *Client, s *Setup) { c.Edit(1, s.IDs[1:]...) }},
		{"worker 1", claims(1)},
		{"worker 2", claims(1)},
	}},
	{"a requeue beside a finish, nothing kept", func(s *Setup) {
		s.Add(jobs(3)...)
		s.Hold("worker 1", 2)
		s.Finish(s.Held[0].Lease().Die("e"))
		s.Set(dibs.QueueChange{KeepCompleted: new(time.Duration)})
	}, []Actor{
		{"worker 1", func(c *Client, s *Setup) { c.Finish(s.Held[1].Lease().Complete(nil)) }},
		{"operator", func(c *Client, s *Setup) { c.Requeue(s.IDs...) }},
		{"worker 2", claimsAndCompletes(2)},
	}},
	{"a key wanted back by a requeue", func(s *Setup) {
		s.Add(keyed("u", ""), dibs.NewJob{})
		s.Hold("worker 1", 1)
		s.Finish(s.Held[0].Lease().Complete(nil))
	}, []Actor{
		{"operator", func(c *Client, s *Setup) { c.Requeue(s.IDs[0]) }},
		{"producer", func(c *Client, _ *Setup) { c.Enqueue(keyed("u", "")) }},
		{"worker 2", claimsAndCompletes(2)},
	}},
	{"keys given up by claim and finish", func(s *Setup) {
		s.Add(keyed("f", dibs.UntilFinished))
		s.Hold("worker 1", 1)
		s.Add(keyed("c", dibs.UntilClaimed))
	}, []Actor{
		{"producer", func(c *Client, _ *Setup) {
			c.Enqueue(keyed("f", dibs.UntilFinished), keyed("c", dibs.UntilClaimed))
		}},
		{"worker 1", completes},
		{"worker 2", claims(2)},
	}},
	{"two enqueues of one key", held(0, 1), []Actor{
		{"producer 1", func(c *Client, _ *Setup) { c.Enqueue(keyed("u", ""), keyed("v", "")) }},
		{"producer 2", func(c *Client, _ *Setup) { c.Enqueue(keyed("v", ""), keyed("u", "")) }},
		{"worker", claimsAndCompletes(3)},
	}},
}

// jobs makes n jobs with all defaults.
func jobs(n int) []dibs.NewJob { return make([]dibs.NewJob, n) }

func keyed(key string, until dibs.UniqueUntil) dibs.NewJob {
	return dibs.NewJob{UniqueKey: key, UniqueUntil: until}
}

// held adds jobs: worker 1 runs the first ones, the others wait.
func held(running, waiting int) func(*Setup) {
	return func(s *Setup) {
		s.Add(jobs(running + waiting)...)
		if running > 0 {
			s.Hold("worker 1", running)
		}
	}
}

func claims(n int) func(*Client, *Setup) {
	return func(c *Client, _ *Setup) { c.Claim(n) }
}

func claimsAndCompletes(n int) func(*Client, *Setup) {
	return func(c *Client, _ *Setup) {
		c.Claim(n)
		c.Complete()
	}
}

// finishes writes an outcome for each job held from the start.
func finishes(outcome func(dibs.Lease) dibs.Outcome) func(*Client, *Setup) {
	return func(c *Client, s *Setup) {
		var list []dibs.Outcome
		for _, j := range s.Held {
			list = append(list, outcome(j.Lease()))
		}
		c.Finish(list...)
	}
}

var completes = finishes(completed)

func sweeps(c *Client, _ *Setup) { c.Sweep() }

func set(change dibs.QueueChange) func(*Client, *Setup) {
	return func(c *Client, _ *Setup) { c.SetQueue(change) }
}

func passes(d time.Duration) func(*Client, *Setup) {
	return func(c *Client, _ *Setup) { c.Pass(d) }
}

// pastLease is longer than the default lease.
const pastLease = 11 * time.Second
