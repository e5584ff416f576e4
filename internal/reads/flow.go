package reads

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Followers counts the blocked jobs of a queue that come after others.
func (c Calls) Followers(ctx context.Context, queue string) (int, error) {
	all, err := list(ctx, c, "followers", checks.Name("queue", queue), One[int], "followers", queue, admin.FollowersCap)
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// flowRows is how many counts of a queue, a kind and a state one call reads.
const flowRows = 1000

// counted is a row of flow_rows.sql.
type counted struct {
	part, queue, kind string
	state             dibs.State
	n, first          int64
}

// need is a row of flow_open.sql.
type need struct {
	id int64
	on dibs.Need
}

// Flow counts the jobs around one: see admin.Admin.
func (c Calls) Flow(ctx context.Context, id int64, most int) (admin.Flow, error) {
	if err := c.Ready(ctx, "flow"); err != nil {
		return admin.Flow{}, err
	}
	if most < 0 {
		return admin.Flow{}, &dibs.InvalidError{Field: "most", Reason: fmt.Sprintf("must be 0 or more, got %d", most)}
	}
	if most == 0 {
		most = math.MaxInt
	}
	f := admin.Flow{ID: id}
	var found []admin.Flow
	var all []counted
	var open []need
	var caused []int64
	err := c.Read(ctx,
		rows(&found, func(f *admin.Flow) []any { return []any{&f.Flow, Text(&f.State)} }, "flow_job", id),
		rows(&all, func(r *counted) []any { return []any{&r.part, &r.queue, &r.kind, Text(&r.state), &r.n, &r.first} }, "flow_rows", id, flowRows+1, most),
		rows(&open, func(n *need) []any { return []any{&n.id, Text(&n.on)} }, "flow_open", id, admin.MaxOpen),
		rows(&caused, One, "flow_caused", id, most),
	)
	if err != nil {
		return admin.Flow{}, c.Failed("flow", err)
	}
	if len(found) == 0 {
		return admin.Flow{}, checks.Failed(fmt.Sprint("job ", id), dibs.ErrNotFound)
	}
	f.Flow, f.State, f.Caused, f.More = found[0].Flow, found[0].State, caused[0], len(all) > flowRows
	all = all[:min(len(all), flowRows)]
	f.Open, f.Needs, f.Lost = []int64{}, []dibs.Need{}, lost(all)
	for _, n := range open {
		f.Open, f.Needs = append(f.Open, n.id), append(f.Needs, n.on)
	}
	f.Before, f.After, f.All = flowPart(all, "before"), flowPart(all, "after"), flowPart(all, "flow")
	return f, nil
}

// flowPart makes one row of the counts of each queue and kind of a part, in the order of their first jobs.
func flowPart(all []counted, part string) []admin.FlowRow {
	list, at := []admin.FlowRow{}, map[[2]string]int{}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.first, b.first) })
	for _, r := range all {
		if r.part != part {
			continue
		}
		name := [2]string{r.queue, r.kind}
		if _, is := at[name]; !is {
			at[name], list = len(list), append(list, admin.FlowRow{Queue: r.queue, Kind: r.kind, First: r.first})
		}
		list[at[name]].Add(r.state, r.n)
	}
	return list
}

// lost lists the first jobs of a flow that are dead, then those that were cancelled.
func lost(all []counted) (ids []int64) {
	for _, state := range []dibs.State{dibs.Dead, dibs.Cancelled} {
		at := len(ids)
		for _, r := range all {
			if r.part == "flow" && r.state == state {
				ids = append(ids, r.first)
			}
		}
		slices.Sort(ids[at:])
	}
	return ids[:min(len(ids), admin.MaxOpen)]
}

// FlowJobs lists the jobs of a flow that have not ended, or ended in a state, newest first.
func (c Calls) FlowJobs(ctx context.Context, flow int64, state dibs.State, before int64) ([]int64, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	if state == "" {
		return list(ctx, c, "flow jobs", nil, One[int64], "flow_jobs", flow, before, dibs.MaxBatch)
	}
	var invalid error
	if !state.Final() {
		invalid = &dibs.InvalidError{Field: "state", Reason: fmt.Sprintf("must be completed, dead or cancelled, or empty for jobs that have not ended, got %q", state)}
	}
	return list(ctx, c, "flow jobs", invalid, One[int64], "flow_ended", flow, before, dibs.MaxBatch, string(state))
}
