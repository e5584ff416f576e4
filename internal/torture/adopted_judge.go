package torture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// adoptedEvidence is what a run on an adopted table is judged from, besides the records.
type adoptedEvidence struct {
	want, got []string // names of rows: the order, and the order in which they were claimed
	others    *others
	ends      map[int64]int // how often each row has ended, as the triggers of the copy saw it
	ended     map[int64]meddled
	left      []string // rows that have not ended, nor died in the side table
	leases    []string // of the side table, at the end
}

// The promises of an adopted table, beside those about owners and tokens, which are in the
// words of docs/guarantees.md.
const (
	endsOnce  = "Each row ends exactly once: by one accepted outcome, or by another program. What another program has ended stays so, and nobody is given it."
	nothing   = "Nothing is left behind: every row has ended, and no lease is left of any."
	inOrders  = "Rows are claimed in the mapping's order."
	inGroups  = "Of a group, no more rows run at once than its limit allows."
	attempted = "Attempts never exceed max_attempts."
)

// judgeAdopted reads what was left and judges it.
func (r *run) judgeAdopted(ctx context.Context, e *adoptedEvidence) (*Result, error) {
	calls, err := history.Read(r.Dir)
	if err == nil {
		err = e.read(ctx)
	}
	if err != nil {
		return nil, err
	}
	result := &Result{About: r.About, Dir: r.Dir, Totals: count(calls)}
	result.Totals.Enqueued = len(e.ends) + len(e.left)
	var verdicts []history.Verdict
	verdicts = append(verdicts, e.endings(calls), e.leftBehind(), e.ordered(), r.attempts(calls))
	queues, err := r.DB.Queues(ctx)
	if err != nil {
		return nil, err
	}
	owned := history.Evidence{Calls: r.renumbered(e.unmeddled(calls)), Queues: queues, Slack: slack, LeaseSlack: leaseSlack}
	verdicts = append(verdicts, history.Owned(owned)...)
	verdicts[len(verdicts)-1].Promise = inGroups // how they are ordered in their group is not judged
	for i := range verdicts {
		verdicts[i].Number = i + 1
	}
	if r.Adopted.M.Group.Column == "" {
		verdicts = verdicts[:len(verdicts)-1]
	}
	result.Verdicts = verdicts
	return result, nil
}

// leaseSlack is for columns that hold whole seconds: a lease is rounded up by them.
const leaseSlack = 2 * time.Second

func (e *adoptedEvidence) read(ctx context.Context) error {
	a := e.others.Adopted
	e.ends, e.ended = map[int64]int{}, map[int64]meddled{}
	names, err := a.names(ctx, "select name from "+a.Ends)
	if err != nil {
		return err
	}
	for _, n := range names {
		id, err := a.Table.ID(n)
		if err != nil {
			return err
		}
		e.ends[id]++
	}
	for n, m := range e.others.ended {
		id, err := a.Table.ID(n)
		if err != nil {
			return err
		}
		e.ended[id] = m
	}
	page, err := a.Table.List(ctx, dibs.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for _, j := range page.Jobs {
		e.left = append(e.left, nameOf(j)+" ("+string(j.State)+")")
	}
	e.leases, err = a.leases(ctx)
	return err
}

// leases are the keys of the rows that are leased in the side table.
func (a *Adopted) leases(ctx context.Context) ([]string, error) {
	if !a.M.SideTable {
		return nil, nil
	}
	side := quoted("dibs_adopted")
	if schema, _, ok := strings.Cut(a.M.Table, "."); ok {
		side = quoted(schema) + "." + side
	}
	return a.names(ctx, "select key from "+side+" where token is not null")
}

// endings judges that each row ends once.
func (e *adoptedEvidence) endings(calls []*history.Call) history.Verdict {
	v := history.Verdict{Promise: endsOnce, Checked: len(e.ends)}
	accuse := func(id int64, calls []*history.Call, format string, args ...any) {
		if len(v.Broken) < history.MaxBroken {
			v.Broken = append(v.Broken, history.Violation{Job: id, Text: fmt.Sprintf(format, args...), Calls: calls})
		}
	}
	enders := map[int64][]*history.Call{}
	for _, c := range calls {
		switch c.Verb {
		case history.Finish:
			for _, o := range c.Outcomes {
				if c.Fate != history.Done || slices.Contains(c.Refused, o.ID) {
					continue
				}
				if m, ok := e.ended[o.ID]; ok && c.Begin.After(m.to) {
					accuse(o.ID, []*history.Call{c}, "an outcome of row %d was accepted after another program had ended it", o.ID)
				}
				if o.Ending == dibs.EndCompleted {
					enders[o.ID] = append(enders[o.ID], c)
				}
			}
		case history.Claim, history.Resume:
			for _, j := range c.Jobs {
				if m, ok := e.ended[j.ID]; ok && c.Begin.After(m.to) {
					accuse(j.ID, []*history.Call{c}, "row %d was claimed after another program had ended it", j.ID)
				}
			}
		}
	}
	for id, n := range e.ends {
		if n > 1 {
			accuse(id, enders[id], "row %d has ended %d times", id, n)
		}
	}
	for id, by := range enders {
		_, elsewhere := e.ended[id]
		switch {
		case e.ends[id] == 0:
			accuse(id, by, "row %d has not ended, though its completion was acknowledged", id)
		case len(by) > 1 || elsewhere:
			accuse(id, by, "row %d was completed %d times, and another program had ended it: %v", id, len(by), elsewhere)
		}
	}
	return v
}

func (e *adoptedEvidence) leftBehind() history.Verdict {
	v := history.Verdict{Promise: nothing, Checked: len(e.ends) + len(e.left)}
	for _, what := range [][]string{e.left, e.leases} {
		for _, name := range what {
			v.Broken = append(v.Broken, history.Violation{Text: "row " + name + " is left behind"})
		}
	}
	return v
}

func (e *adoptedEvidence) ordered() history.Verdict {
	v := history.Verdict{Promise: inOrders, Checked: len(e.got)}
	place := make(map[string]int, len(e.want))
	for i, n := range e.want {
		place[n] = i
	}
	for i := 1; i < len(e.got); i++ {
		if place[e.got[i]] < place[e.got[i-1]] {
			v.Broken = append(v.Broken, history.Violation{Text: fmt.Sprintf("row %s was claimed after row %s, and comes before it", e.got[i], e.got[i-1])})
		}
	}
	return v
}

func (r *run) attempts(calls []*history.Call) history.Verdict {
	v := history.Verdict{Promise: attempted}
	if r.Adopted.M.MaxAttempts == 0 {
		return v
	}
	excused := r.excused(calls)
	for _, c := range calls {
		for _, j := range c.Jobs {
			v.Checked++
			if j.Attempt-j.Excused-excused[j.ID] > r.Adopted.M.MaxAttempts {
				v.Broken = append(v.Broken, history.Violation{Job: j.ID, Text: fmt.Sprintf("row %d was given its attempt %d", j.ID, j.Attempt-j.Excused), Calls: []*history.Call{c}})
			}
		}
	}
	return v
}

// excused counts, for each row, the attempts that do not count, at most, where the number in
// the table does not go down for them.
func (r *run) excused(calls []*history.Call) map[int64]int {
	n := map[int64]int{}
	if m := r.Adopted.M; m.SideTable || m.Claim.Token != "" {
		return n
	}
	for _, c := range calls {
		for _, o := range c.Outcomes {
			if (o.Ending == dibs.EndRelease || o.Ending == dibs.EndSnooze) && c.Fate != history.Nothing && !slices.Contains(c.Refused, o.ID) {
				n[o.ID]++
			}
		}
	}
	return n
}

// unmeddled are the calls without the rows that the other program has ended: their
// leases ended with them, which the records of dibs do not tell.
func (e *adoptedEvidence) unmeddled(calls []*history.Call) []*history.Call {
	gone := func(id int64) bool { _, ok := e.ended[id]; return ok }
	all := make([]*history.Call, len(calls))
	for i, c := range calls {
		own := *c
		own.Jobs = slices.DeleteFunc(slices.Clone(c.Jobs), func(j history.Job) bool { return gone(j.ID) })
		own.Leases = slices.DeleteFunc(slices.Clone(c.Leases), func(l dibs.Lease) bool { return gone(l.ID) })
		own.Outcomes = slices.DeleteFunc(slices.Clone(c.Outcomes), func(o dibs.Outcome) bool { return gone(o.ID) })
		own.Refused = slices.DeleteFunc(slices.Clone(c.Refused), gone)
		all[i] = &own
	}
	return all
}

// renumbered are the calls with attempts numbered in the order of the claims, where the
// table does not count them so that each has a number of its own.
func (r *run) renumbered(calls []*history.Call) []*history.Call {
	m := r.Adopted.M
	if m.SideTable || m.Claim.Attempts != "" && m.Claim.Token == "" {
		return calls
	}
	claims := map[int64][]*history.Job{}
	for _, c := range calls {
		for i := range c.Jobs {
			claims[c.Jobs[i].ID] = append(claims[c.Jobs[i].ID], &c.Jobs[i])
		}
	}
	for _, jobs := range claims {
		slices.SortFunc(jobs, func(a, b *history.Job) int { return cmp.Compare(a.ClaimedAt.UnixMicro(), b.ClaimedAt.UnixMicro()) })
		for i, j := range jobs {
			j.Attempt, j.Excused = i+1, 0
		}
	}
	return calls
}
