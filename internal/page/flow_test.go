package page

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A job may wait for more jobs than the page counts.
func TestWhatAJobWaitsForIsNeverMoreThanAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits   int
		counted int64
		says    string
	}{
		{1, 1, "it waits for the end of 1 job"},
		{2, 3, "it waits for the end of 2 of 3 jobs"},
		{9, flowJobs, "it waits for the end of 9 of at least " + plural(flowJobs, "job")},
		{flowJobs, flowJobs, "it waits for the end of " + plural(flowJobs, "job")},
		{80_000, flowJobs, "it waits for the end of " + plural(80_000, "job")},
	} {
		j := &dibs.RawJob{WaitsFor: c.waits}
		if a := waitsFor(j, nil, admin.FlowRow{Completed: c.counted}); a.Text != c.says {
			t.Errorf("waits for %d, %d counted: %q, want %q", c.waits, c.counted, a.Text, c.says)
		}
	}
}

// A part of a flow has 20 rows, counts the rest, and tells where more jobs may be than it counts.
func TestAPartOfAFlowHasFewRows(t *testing.T) {
	t.Parallel()
	r := &request{who: Viewer{Reads: func(queue string) bool { return queue != "secret" }, Changes: anyQueue}}
	rows := []admin.FlowRow{{Queue: "secret", Kind: "k", Waiting: 5}}
	for i := range flowRows + 3 {
		rows = append(rows, admin.FlowRow{Queue: "q", Kind: fmt.Sprint(i), Completed: 2, Blocked: 1})
	}
	var v flowView
	v.add(r, "Flow", rows, false)
	p := v.Parts[0]
	if len(p.Rows) != flowRows || p.Kinds != 3 || p.Rest.Jobs() != 9 || p.Hidden != 5 || p.Sum.Jobs() != 3*(flowRows+3) || v.Partly || p.Sum.More() {
		t.Errorf("%d rows, %d more kinds with %d jobs, %d hidden, %d in all, partly %t", len(p.Rows), p.Kinds, p.Rest.Jobs(), p.Hidden, p.Sum.Jobs(), v.Partly)
	}
	for name, row := range map[string]admin.FlowRow{
		"waiting": {Waiting: flowJobs}, "completed": {Completed: flowJobs}, "dead": {Dead: flowJobs}, "cancelled": {Cancelled: 1, Unneeded: flowJobs - 1},
	} {
		var v flowView
		v.add(r, "Flow", []admin.FlowRow{row}, false)
		sum := v.Parts[0].Sum
		if !v.Partly || !sum.More() || sum.EndedMore() != (name != "waiting") || sum.Open != (name == "waiting") || sum.Died != (name == "dead") || sum.Gone != (name == "cancelled") {
			t.Errorf("as many as are counted are %s: %+v", name, sum)
		}
		v = flowView{}
		if v.add(r, "It comes after", []admin.FlowRow{row}, true); !v.Parts[0].Sum.Open || !v.Parts[0].Sum.Done {
			t.Errorf("around a job, as many as are counted are %s: %+v", name, v.Parts[0].Sum)
		}
	}
}

// The page tells how many of the jobs before one are dead.
func TestDeadJobsBeforeOneAreTold(t *testing.T) {
	t.Parallel()
	a := waitsFor(&dibs.RawJob{WaitsFor: 3}, []int64{7}, admin.FlowRow{Waiting: 3, Dead: 2})
	if a.Text+a.More != "it waits for the end of 3 of 5 jobs:  …; 2 dead" {
		t.Errorf("%q", a.Text+a.More)
	}
}
