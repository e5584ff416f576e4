package interleave

import (
	"github.com/dibs-queue/dibs"
)

// flows are scenarios with jobs that come after others.
var flows = []Scenario{
	{"the last two parents end at once", heldBefore(2), []Actor{
		{"worker 1", ends(0, completed)},
		{"worker 2", ends(1, completed)},
		{"worker 3", claims(1)},
	}},
	{"two settlements of the last two parents", func(s *Setup) {
		heldBefore(2)(s)
		s.Finish(completed(s.Held[0].Lease()))
	}, []Actor{
		{"upkeep", settles},
		{"worker 2", ends(1, completed)},
	}},
	{"a follower that comes while its parent is completed", held(1, 0), []Actor{
		{"producer", follows(0, dibs.NeedCompleted)},
		{"worker 1", ends(0, completed)},
		{"worker 2", claims(1)},
	}},
	{"a follower that comes while its parent dies", held(1, 0), []Actor{
		{"producer 1", follows(0, dibs.NeedCompleted)},
		{"worker 1", ends(0, func(l dibs.Lease) dibs.Outcome { return l.Die("e") })},
		{"producer 2", follows(0, dibs.NeedFailed)},
	}},
	{"a follower that comes while its parent is cancelled", held(0, 1), []Actor{
		{"producer", follows(0, dibs.NeedCompleted)},
		{"operator", func(c *Client, s *Setup) {
			c.Cancel(s.IDs[0])
			c.Settle()
		}},
		{"worker 2", claims(2)},
	}},
	{"a parent that is requeued while its end is settled", func(s *Setup) {
		s.AddTogether(dibs.NewJob{Ref: "a"}, dibs.NewJob{Ref: "b", After: after("a")}, dibs.NewJob{After: after("b")})
		s.Hold("worker 1", 1)
		s.Finish(s.Held[0].Lease().Die("e"))
	}, []Actor{
		{"upkeep", settles},
		{"operator", func(c *Client, s *Setup) {
			c.Requeue(s.IDs[0])
			c.Settle()
		}},
		{"worker 2", claimsAndCompletes(1)},
		{"again", settles},
	}},
	{"a follower that is requeued while its parent ends", func(s *Setup) {
		heldBefore(1)(s)
		s.Cancel(s.IDs[1])
	}, []Actor{
		{"operator", func(c *Client, s *Setup) {
			c.Requeue(s.IDs[1])
			c.Settle()
		}},
		{"worker 1", ends(0, completed)},
		{"worker 2", claims(1)},
	}},
	{"an attempt that adds a job past its lease", heldBefore(1), []Actor{
		{"worker 1", ends(0, func(l dibs.Lease) dibs.Outcome {
			o := l.Complete(nil)
			o.Add = []dibs.NewJob{{Queue: Queue, Kind: "k"}}
			return o
		})},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(2)},
	}},
}

// heldBefore adds jobs that worker 1 runs, and one that comes after them.
func heldBefore(running int) func(*Setup) {
	return func(s *Setup) {
		all := jobs(running + 1)
		for i := range running {
			all[i].Ref = "parent"
		}
		all[running].After = after("parent")
		s.AddTogether(all...)
		s.Hold("worker 1", running)
	}
}

func after(ref string) []dibs.Dep { return []dibs.Dep{{Ref: ref}} }

func completed(l dibs.Lease) dibs.Outcome { return l.Complete(nil) }

// ends writes an outcome for one of the jobs held from the start.
func ends(i int, outcome func(dibs.Lease) dibs.Outcome) func(*Client, *Setup) {
	return func(c *Client, s *Setup) {
		c.Finish(outcome(s.Held[i].Lease()))
		c.Settle()
	}
}

// follows enqueues a job that comes after one that was there from the start.
func follows(i int, need dibs.Need) func(*Client, *Setup) {
	return func(c *Client, s *Setup) {
		c.Enqueue(dibs.NewJob{After: []dibs.Dep{{ID: s.IDs[i], On: need}}})
		c.Settle()
	}
}

func settles(c *Client, _ *Setup) { c.Settle() }
