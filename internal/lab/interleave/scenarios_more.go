package interleave

import (
	"github.com/dibs-queue/dibs"
)

// grouped are scenarios with one group; its limit is 1 unless they set another.
var grouped = []Scenario{
	{"a group's place that becomes free", heldOfGroup(1, 2), []Actor{
		{"worker 1", completes},
		{"worker 2", claims(2)},
		{"worker 3", claims(2)},
		{"sweeper", sweeps},
	}},
	{"a group's limit that is raised", heldOfGroup(1, 2), []Actor{
		{"worker 1", completes},
		{"worker 2", claims(3)},
		{"operator", func(c *Client, _ *Setup) { c.SetGroup("g", 2) }},
		{"worker 3", claims(3)},
	}},
	{"a group's limit that is lowered", func(s *Setup) {
		s.Set(dibs.QueueChange{GroupLimit: new(2)})
		heldOfGroup(1, 2)(s)
	}, []Actor{
		{"worker 1", completes},
		{"worker 2", claims(3)},
		{"operator", set(dibs.QueueChange{GroupLimit: new(1)})},
		{"worker 3", claims(3)},
	}},
	{"a group that gets a better job", heldOfGroup(0, 2), []Actor{
		{"worker 1", claimsAndCompletes(2)},
		{"producer", func(c *Client, _ *Setup) { c.Enqueue(dibs.NewJob{Group: "g", Priority: new(1)}) }},
		{"worker 2", claims(2)},
	}},
	{"the last job of a group beside its next", heldOfGroup(1, 0), []Actor{
		{"worker 1", completes},
		{"producer", func(c *Client, _ *Setup) { c.Enqueue(dibs.NewJob{Group: "g"}) }},
		{"worker 2", claims(2)},
	}},
	{"a group's job whose lease ends", heldOfGroup(1, 2), []Actor{
		{"worker 1", finishes(dibs.Lease.Release)},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(2)},
	}},
	{"a group's retry, when its time comes", heldOfGroup(1, 1), []Actor{
		{"worker 1", func(c *Client, s *Setup) { c.Finish(s.Held[0].Lease().Retry("e")) }},
		{"time", passes(pastLease / 5)},
		{"worker 2", claims(2)},
		{"worker 3", claims(2)},
	}},
	{"a strict group's retry", func(s *Setup) {
		s.Set(dibs.QueueChange{Strict: new(true)})
		heldOfGroup(1, 1)(s)
	}, []Actor{
		{"worker 1", func(c *Client, s *Setup) { c.Finish(s.Held[0].Lease().Retry("e")) }},
		{"time", passes(pastLease / 5)},
		{"worker 2", claims(2)},
		{"sweeper", sweeps},
	}},
	{"a cancel and an edit within a group", heldOfGroup(1, 2), []Actor{
		{"operator 1", func(c *Client, s *Setup) { c.Cancel(s.IDs[1]) }},
		{"operator 2", func(c *Client, s *Setup) { c.Edit(1, s.IDs[1:]...) }},
		{"worker 1", completes},
		{"worker 2", claims(2)},
	}},
	{"a group in a queue with a limit", func(s *Setup) {
		s.Set(dibs.QueueChange{Concurrency: new(1)})
		heldOfGroup(1, 1)(s)
		s.Add(dibs.NewJob{})
	}, []Actor{
		{"worker 1", completes},
		{"worker 2", claims(2)},
		{"worker 3", claims(2)},
	}},
}

// transactions are scenarios with transactions of callers.
var transactions = []Scenario{
	{"a claiming transaction that is undone", func(s *Setup) {
		s.Add(jobs(3)...)
	}, []Actor{
		{"caller", func(c *Client, _ *Setup) { c.Tx(true, func(t *TxClient) { t.Claim(2) }) }},
		{"worker", claimsAndCompletes(2)},
		{"sweeper", sweeps},
		{"operator", func(c *Client, s *Setup) { c.Cancel(s.IDs[0]) }},
	}},
	{"a claiming transaction past its leases", func(s *Setup) {
		s.Add(jobs(3)...)
	}, []Actor{
		{"caller", func(c *Client, _ *Setup) {
			c.Tx(false, func(t *TxClient) {
				if claimed := t.Claim(2); len(claimed) > 0 { // none if the run was given up
					t.Finish(claimed[0].Lease().Complete(nil))
				}
			})
		}},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker", claims(2)},
	}},
	{"a claiming transaction of a group", heldOfGroup(0, 2), []Actor{
		{"caller", func(c *Client, _ *Setup) {
			c.Tx(false, func(t *TxClient) {
				for _, j := range t.Claim(2) {
					t.Finish(j.Lease().Complete(nil))
				}
			})
		}},
		{"undone", func(c *Client, _ *Setup) { c.Tx(true, func(t *TxClient) { t.Claim(2) }) }},
		{"worker", claims(2)},
	}},
	{"a claiming transaction under a limit", func(s *Setup) {
		s.Set(dibs.QueueChange{Concurrency: new(1)})
		s.Add(jobs(3)...)
	}, []Actor{
		{"caller", func(c *Client, _ *Setup) {
			c.Tx(false, func(t *TxClient) {
				for _, j := range t.Claim(2) {
					t.Finish(j.Lease().RetryAfter(0, "e"))
				}
			})
		}},
		{"worker 1", claims(2)},
		{"worker 2", claims(2)},
	}},
	{"a finishing transaction past the lease", held(1, 1), []Actor{
		{"worker 1", func(c *Client, s *Setup) { finishesIn(c, s, false) }},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(2)},
	}},
	{"a finishing transaction that is undone", held(1, 1), []Actor{
		{"worker 1", func(c *Client, s *Setup) { finishesIn(c, s, true) }},
		{"time", passes(pastLease)},
		{"sweeper", sweeps},
		{"worker 2", claims(2)},
	}},
	{"an enqueue in a transaction, into a group", heldOfGroup(1, 0), []Actor{
		{"caller", func(c *Client, s *Setup) {
			c.Tx(false, func(t *TxClient) {
				t.Finish(s.Held[0].Lease().Complete(nil))
				t.Enqueue(dibs.NewJob{Group: "g"})
			})
		}},
		{"worker 2", claims(2)},
		{"sweeper", sweeps},
		{"undone", func(c *Client, _ *Setup) { c.Tx(true, func(t *TxClient) { t.Enqueue(dibs.NewJob{Group: "g"}) }) }},
	}},
	{"a key enqueued in a transaction that is undone", held(0, 1), []Actor{
		{"caller", func(c *Client, _ *Setup) { c.Tx(true, func(t *TxClient) { t.Enqueue(keyed("u", "")) }) }},
		{"producer", func(c *Client, _ *Setup) { c.Enqueue(keyed("u", "")) }},
		{"worker", claims(2)},
	}},
}

func finishesIn(c *Client, s *Setup, undo bool) {
	c.Tx(undo, func(t *TxClient) { t.Finish(s.Held[0].Lease().Complete(nil)) })
}

// heldOfGroup is like held, with jobs of the group g.
func heldOfGroup(running, waiting int) func(*Setup) {
	return func(s *Setup) {
		for range running + waiting {
			s.Add(dibs.NewJob{Group: "g"})
		}
		if running > 0 {
			s.Hold("worker 1", running)
		}
	}
}
