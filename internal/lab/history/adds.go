package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// addition names the outcome that adds jobs, by its call and its job.
type addition struct {
	call int32
	job  int64
}

// separateAdds puts an enqueue call behind each finish for every outcome that adds jobs, with the outcome's fate. So what is
// judged of enqueued jobs is judged of added ones too.
func separateAdds(calls []*Call) ([]*Call, map[addition]int32) {
	adds := make(map[addition]int32)
	if !slices.ContainsFunc(calls, func(c *Call) bool { return c.Verb == Finish && len(c.New) > 0 }) {
		return calls, adds
	}
	all := make([]*Call, 0, len(calls)+len(calls)/8)
	for _, c := range calls {
		all = append(all, c)
		if c.Verb != Finish {
			continue
		}
		finish := int32(len(all) - 1)
		for rest := c.New; len(rest) > 0; {
			by := rest[0].By
			n := slices.IndexFunc(rest, func(n New) bool { return n.By != by })
			if n < 0 {
				n = len(rest)
			}
			add := &Call{Client: c.Client, Number: c.Number, Verb: Enqueue, Tx: c.Tx, Begin: c.Begin, End: c.End, Fate: c.Fate, New: rest[:n]}
			written := slices.ContainsFunc(c.Outcomes, func(o dibs.Outcome) bool { return o.ID == by })
			if !written || slices.Contains(c.Refused, by) {
				add.Fate = Nothing
			}
			adds[addition{finish, by}] = int32(len(all))
			all, rest = append(all, add), rest[n:]
		}
	}
	return all, adds
}

// promiseOf is the promise that the jobs of an enqueue exist if and only if it took effect.
func (j *judge) promiseOf(call int32) int {
	if c := j.Calls[call]; c.Verb == Enqueue && len(c.New) > 0 && c.New[0].By != 0 {
		return 13
	}
	return 1
}
