package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// adoptedEvidence is the evidence of a run on an adopted table, besides the records.
type adoptedEvidence struct {
	order, claimed []string      // names of rows: in the mapping's order, and in the order of their claims
	ends           map[int64]int // how often each row has ended, by the triggers of the copy
	unended        []string      // rows that have neither ended nor died in the side table
	leases         []string      // leases in the side table at the end
}

// These promises of an adopted table are judged here, and others by package history.
const (
	promiseNothingLeft = "Nothing is left behind: every row has ended, and no row still has a lease."
	promiseOrder       = "Rows are claimed in the mapping's order."
	promiseGroups      = "Of a group, no more rows run at once than its limit allows."
	promiseAttempts    = "Attempts never exceed max_attempts."
)

// judgeAdopted reads the evidence of the run and judges it.
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
	result.Totals.Enqueued = len(e.ends) + len(e.unended)
	verdicts := []history.Verdict{e.leftBehindVerdict(), e.orderVerdict(), r.attemptsVerdict(calls)}
	verdicts = append(verdicts, history.Owned(history.Evidence{
		Calls: calls, Queues: queues, Effects: e.ends, Slack: slack, LeaseSlack: leaseSlack, ReleasesCount: adopted.ReleasesCount(r.Adopted.M),
	})...)
	verdicts[len(verdicts)-1].Promise = promiseGroups // the order in a group is not judged
	if r.Adopted.M.Group.Column == "" {
		verdicts = verdicts[:len(verdicts)-1]
	}
	for i := range verdicts {
		verdicts[i].Number = i + 1
	}
	result.Verdicts = verdicts
	return result, nil
}

// leaseSlack allows for columns with whole seconds, which round the end of a lease up.
const leaseSlack = 2 * time.Second

func (e *adoptedEvidence) read(ctx context.Context, a *Adopted) error {
	e.ends = map[int64]int{}
	names, err := a.queryNames(ctx, "select name from "+a.Ends)
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
	page, err := a.Table.List(ctx, admin.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for _, j := range page.Jobs {
		e.unended = append(e.unended, nameOf(j)+" ("+string(j.State)+")")
	}
	e.leases, err = a.leases(ctx)
	return err
}

// leases lists the keys of rows that have a lease in the side table.
func (a *Adopted) leases(ctx context.Context) ([]string, error) {
	if !a.M.SideTable {
		return nil, nil
	}
	side := quoted("dibs_adopted")
	if schema, _, ok := strings.Cut(a.M.Table, "."); ok {
		side = quoted(schema) + "." + side
	}
	return a.queryNames(ctx, "select key from "+side+" where token is not null")
}

func (e *adoptedEvidence) leftBehindVerdict() history.Verdict {
	v := history.Verdict{Promise: promiseNothingLeft, Checked: len(e.ends) + len(e.unended)}
	for _, names := range [][]string{e.unended, e.leases} {
		for _, name := range names {
			v.Broken = append(v.Broken, history.Violation{Text: "row " + name + " is left behind"})
		}
	}
	return v
}

func (e *adoptedEvidence) orderVerdict() history.Verdict {
	v := history.Verdict{Promise: promiseOrder, Checked: len(e.claimed)}
	place := make(map[string]int, len(e.order))
	for i, n := range e.order {
		place[n] = i
	}
	for i := 1; i < len(e.claimed); i++ {
		if place[e.claimed[i]] < place[e.claimed[i-1]] {
			v.Broken = append(v.Broken, history.Violation{Text: fmt.Sprintf("row %s was claimed after row %s, and comes before it", e.claimed[i], e.claimed[i-1])})
		}
	}
	return v
}

func (r *run) attemptsVerdict(calls []*history.Call) history.Verdict {
	v := history.Verdict{Promise: promiseAttempts}
	excused := r.excused(calls)
	for _, c := range calls {
		for _, j := range c.Jobs {
			if j.MaxAttempts == 0 {
				continue
			}
			v.Checked++
			if j.Attempt-j.Excused-excused[j.ID] > j.MaxAttempts {
				v.Broken = append(v.Broken, history.Violation{Job: j.ID, Text: fmt.Sprintf("row %d was given its attempt %d", j.ID, j.Attempt-j.Excused), Calls: []*history.Call{c}})
			}
		}
	}
	return v
}

// excused returns how many attempts of each row at most do not count. It is empty if the table
// can tell them: with a side table or a column for tokens.
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
