package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// A job is abandoned and claimed again 300 ms after its lease. Each case adds a reason why the
// job may have been held up.
func TestARecoveryIsUnhinderedOnlyIfNothingHeldTheJobUp(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	call := func(verb history.Verb, ms int) *history.Call {
		return &history.Call{Client: "c", Verb: verb, Queue: "q", Begin: at(ms), End: at(ms + 2), Fate: history.Done}
	}
	claim := func(ms int, job history.Job) *history.Call {
		c := call(history.Claim, ms)
		job.ClaimedAt, job.LeaseUntil, job.RunAt = at(ms+1), at(ms+1001), epoch
		c.Jobs = []history.Job{job}
		return c
	}
	first, second, other := dibs.Token{1}, dibs.Token{2}, dibs.Token{3}
	paused, limit := call(history.SetQueue, 1100), call(history.SetQueue, 1100)
	paused.Settings, limit.Settings = &dibs.QueueChange{Paused: new(true)}, &dibs.QueueChange{Concurrency: new(9)}
	outage, extend, finish, refused := call(history.Fault, 1100), call(history.Extend, 500), call(history.Finish, 500), call(history.Finish, 1100)
	outage.Text = "server killed"
	extend.Leases = []dibs.Lease{{ID: 1, Token: first}}
	finish.Outcomes = []dibs.Outcome{{ID: 1, Token: first, Ending: dibs.EndRetry}}
	refused.Outcomes, refused.Refused = finish.Outcomes, []int64{1}
	for name, c := range map[string]struct {
		added *history.Call
		group string
		times []time.Duration
	}{
		"nothing":            {added: call(history.Sweep, 1100), times: []time.Duration{300 * time.Millisecond}},
		"a late outcome":     {added: refused, times: []time.Duration{300 * time.Millisecond}},
		"a worse job":        {added: claim(1100, history.Job{ID: 2, Token: other, Attempt: 1, Priority: 9}), times: []time.Duration{300 * time.Millisecond}},
		"a better job":       {added: claim(1100, history.Job{ID: 2, Token: other, Attempt: 1, Priority: 4})},
		"a pause":            {added: paused},
		"a limit":            {added: limit},
		"the server away":    {added: outage},
		"it was extended":    {added: extend},
		"it was given back":  {added: finish},
		"others of a group":  {added: call(history.Sweep, 1100), group: "g"},
		"a claim unanswered": {added: &history.Call{Client: "c", Verb: history.Claim, Queue: "q", Begin: at(1100), Fate: history.Unknown}, times: []time.Duration{300 * time.Millisecond}},
	} {
		calls := []*history.Call{
			claim(0, history.Job{ID: 1, Token: first, Attempt: 1, Priority: 5, Group: c.group}), c.added,
			claim(1300, history.Job{ID: 1, Token: second, Attempt: 2, Priority: 5, Group: c.group}),
		}
		if _, got := history.Recoveries(history.Evidence{Calls: calls}); !slices.Equal(got, c.times) {
			t.Errorf("%s: %v, not %v", name, got, c.times)
		}
	}
}
