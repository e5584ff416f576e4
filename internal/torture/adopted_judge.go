package torture

import (
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
	want, got []string      // names of rows: the order, and the order in which they were claimed
	ends      map[int64]int // how often each row has ended, as the triggers of the copy saw it
	left      []string      // rows that have not ended, nor died in the side table
	leases    []string      // what the side table holds at the end
}

// The promises of an adopted table, beside those that package history judges.
const (
	nothing   = "Nothing is left behind: every row has ended, and no lease is left of any."
	inOrders  = "Rows are claimed in the mapping's order."
	inGroups  = "Of a group, no more rows run at once than its limit allows."
	attempted = "Attempts never exceed max_attempts."
)

// judgeAdopted reads what was left and judges it.
func (r *run) judgeAdopted(ctx context.Context, e *adoptedEvidence) (*Result, error) {
	calls, err := history.Read(r.Dir)
	if err == nil {
		err = e.read(ctx, r.Adopted)
	}
	if err != nil {
		return nil, err
	}
	queues, err := r.DB.Queues(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{About: r.About, Dir: r.Dir, Totals: count(calls)}
	result.Totals.Enqueued = len(e.ends) + len(e.left)
	verdicts := []history.Verdict{e.leftBehind(), e.ordered(), r.attempts(calls)}
	verdicts = append(verdicts, history.Owned(history.Evidence{Calls: calls, Queues: queues, Effects: e.ends, Slack: slack, LeaseSlack: leaseSlack})...)
	verdicts[len(verdicts)-1].Promise = inGroups // how they are ordered in their group is not judged
	if r.Adopted.M.Group.Column == "" {
		verdicts = verdicts[:len(verdicts)-1]
	}
	for i := range verdicts {
		verdicts[i].Number = i + 1
	}
	result.Verdicts = verdicts
	return result, nil
}

// leaseSlack is for columns that hold whole seconds: a lease is rounded up by them.
const leaseSlack = 2 * time.Second

func (e *adoptedEvidence) read(ctx context.Context, a *Adopted) error {
	e.ends = map[int64]int{}
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
