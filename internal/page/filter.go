package page

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// filter selects jobs of a queue. It is written into links.
type filter struct {
	admin.Filter
	Since, Before string // limits of the time at which jobs ended, as they were typed
}

func filterOf(queue string, q url.Values) (f filter, err error) {
	f = filter{Since: q.Get("since"), Before: q.Get("before"), Filter: admin.Filter{
		Queue: queue, State: dibs.State(q.Get("state")), Kind: q.Get("kind"), Group: q.Get("group"), Worker: q.Get("worker"),
		Scheduled: q.Get("scheduled") != "", Error: q.Get("error"), Payload: q.Get("payload"), After: q.Get("after"), Limit: jobsOnPage,
	}}
	if key := q.Get("key"); key != "" { // at most one job holds a key, so nothing else matters
		return filter{Filter: admin.Filter{Queue: queue, UniqueKey: key}}, nil
	}
	if !f.State.Final() { // jobs in this state have not ended
		f.Since, f.Before = "", ""
	}
	if f.FinishedSince, err = moment("since", f.Since, -1); err != nil {
		return f, err
	}
	f.FinishedBefore, err = moment("before", f.Before, -1)
	return f, err
}

// link is a link to the same selection of jobs in another state, from the place after on.
func (f filter) link(state dibs.State, after string) string {
	f.State, f.Scheduled = state, f.Scheduled && state == dibs.Waiting
	q := url.Values{}
	for _, pair := range append(f.Pairs(), [2]string{"after", after}) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	return "?" + q.Encode()
}

// All is the query of all jobs of the state.
func (f filter) All() string {
	return filter{Filter: admin.Filter{State: f.State, Scheduled: f.Scheduled}}.link(f.State, "")
}

// Pairs are the parameters of the filter.
func (f filter) Pairs() [][2]string {
	return [][2]string{
		{"state", string(f.State)},
		{"scheduled", map[bool]string{true: "yes"}[f.Scheduled]},
		{"kind", f.Kind},
		{"group", f.Group},
		{"worker", f.Worker},
		{"error", f.Error},
		{"payload", f.Payload},
		{"since", f.Since},
		{"before", f.Before},
	}
}

// words say in words which jobs are shown.
func (f filter) words() string {
	list := []string{"all " + cmp.Or(string(f.State), "open") + " jobs"}
	if f.Scheduled {
		list[0] = "all scheduled jobs"
	}
	for _, pair := range f.Pairs()[2:] {
		if pair[1] != "" {
			list = append(list, "with the "+pair[0]+" "+strconv.Quote(pair[1]))
		}
	}
	return strings.Join(list, ", ")
}

// Some reports whether the filter leaves out jobs of its state.
func (f filter) Some() bool {
	return f.Slow() || f.Kind+f.Group+f.Since+f.Before+f.UniqueKey != ""
}

// Slow reports whether the jobs must be read one by one, as no index finds them.
func (f filter) Slow() bool { return f.Worker+f.Error+f.Payload != "" }
