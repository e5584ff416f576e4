package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// overtakenBy writes a fair queue in which jobs of group h run one after the other. Job 10 is alone in its group. It is
// enqueued at 30 and claimed at 200, after n jobs of group h that were claimed from 40 on, one in each 20 ms.
func overtakenBy(n int, change func(*book)) func(*book) {
	return func(b *book) {
		b.Queues[0].Order = dibs.Fair
		b.enqueue(0, 1, 2, 3, 4, 5)
		b.claim("w1", 10, 1, 1)
		b.finish("w1", 20, dibs.EndCompleted, 10, 1)
		b.enqueue(30, 10)
		last := int64(1)
		claim := func(from int) {
			last++
			b.claim("w1", from, 1, last)
			b.finish("w1", from+10, dibs.EndCompleted, from, last)
		}
		for i := range n {
			claim(40 + 20*i)
		}
		b.claim("w2", 200, 1, 10)
		b.finish("w2", 210, dibs.EndCompleted, 200, 10)
		for last < 5 {
			claim(220 + 20*int(last))
		}
		for _, c := range b.Calls {
			for i := range c.New {
				c.New[i].Group = groupOf(c.New[i].Key)
			}
			for i := range c.Jobs {
				c.Jobs[i].Group = groupOf(c.Jobs[i].Key)
			}
		}
		b.atEnd(dibs.Completed, 1, 1, 2, 3, 4, 5, 10)
		for _, j := range b.Final {
			j.FinishedAt = ms(1000)
		}
		b.Final[0].FinishedAt = ms(20)
		change(b)
	}
}

func groupOf(k string) string {
	if k == key(10) {
		return "alone"
	}
	return "h"
}

// callAt returns the call that began at a time.
func (b *book) callAt(at int) *history.Call {
	return b.Calls[slices.IndexFunc(b.Calls, func(c *history.Call) bool { return c.Begin.Equal(ms(at)) })]
}

// returned makes the job that was claimed at 40 come back at its place, and start again at 400.
func returned(ending dibs.Ending) func(*book) {
	return func(b *book) {
		b.callAt(50).Outcomes[0].Ending = ending
		c := b.claim("w1", 400, 2, 2)
		c.Jobs[0].Group = "h"
		if ending == dibs.EndRelease {
			c.Jobs[0].Excused = 1
		}
		if ending == dibs.EndRetry {
			c.Jobs[0].RunAt = ms(50)
			b.Final[1].Errors = []dibs.AttemptError{{Attempt: 1}}
		}
		b.finish("w1", 410, dibs.EndCompleted, 400, 2)
		b.Final[1].Attempt = 2
	}
}

const broken = "3 jobs of group \"h\" of queue \"q\" started before job 10"

var turning = []page{
	{"one job of the other group starts before one that is alone, and one before its place is certain", overtakenBy(2, func(*book) {}), 0, ""},
	{"two jobs of the other group start before one that has its place", overtakenBy(3, func(*book) {}), 7, broken},
	{"two do, and claims see nothing of each other", overtakenBy(3, func(b *book) { b.ClaimsAtOnce = true }), 7, broken},
	{"two do, and the group may have two places beside other claims", overtakenBy(3, func(b *book) {
		b.ClaimsAtOnce, b.Groups = true, map[string]map[string]int{"q": {"h": 2}}
	}), 0, ""},
	{"three do, though another call gives places the whole time", overtakenBy(3, func(b *book) {
		b.ClaimsAtOnce = true
		b.call("s", history.Sweep, 35).End = ms(190)
	}), 7, broken},
	{"the queue may not have been fair", overtakenBy(3, func(b *book) {
		removeAnswer(b.setQueue(5, dibs.QueueChange{Order: new(dibs.FIFO)}))
	}), 0, ""},
	{"the limit of the group may have changed", overtakenBy(3, func(b *book) {
		c := b.call("o", history.SetGroup, 35)
		c.Queue, c.Group, c.Limit = "q", "h", new(2)
	}), 0, ""},
	{"the group has a rate", overtakenBy(3, func(b *book) {
		c := b.call("o", history.SetGroup, 5)
		c.Queue, c.Group, c.Rate = "q", "alone", &dibs.Rate{N: 10, Per: time.Second}
	}), 0, ""},
	{"the claims asked for some kinds", overtakenBy(3, func(b *book) { b.callAt(60).Kinds, b.callAt(80).Kinds = true, true }), 0, ""},
	{"the job may have been locked", overtakenBy(3, func(b *book) { b.claim("w3", 59, 1).Fate = history.Unknown }), 0, ""},
	{"the job has company", overtakenBy(3, func(b *book) {
		b.Final[0].FinishedAt = ms(35)
		for _, c := range []*history.Call{b.callAt(0), b.callAt(10)} {
			if c.New != nil {
				c.New[0].Group = "alone"
			} else {
				c.Jobs[0].Group = "alone"
			}
		}
		b.Final[0].Group = "alone"
	}), 0, ""},
	{"the job was not due", overtakenBy(3, func(b *book) {
		b.callAt(30).New[0].Delay = 160 * time.Millisecond
		b.callAt(200).Jobs[0].RunAt = ms(190)
	}), 0, ""},
	{"a job of the group came back at its place", overtakenBy(3, returned(dibs.EndRelease)), 0, ""},
	{"a job of the group came back for its retry", overtakenBy(3, returned(dibs.EndRetry)), 7, broken},
}

// aloneEvery is how many jobs of groups with backlogs turnsLoad enqueues for each one that is alone in its group.
const aloneEvery = 10

// turnsLoad records one client that enqueues, claims and completes one job after the other in a fair queue.
func turnsLoad(t *testing.T) (evidence func() history.Evidence) {
	t.Helper()
	db, rec, dir := open(t, "c")
	_, err := db.ChangeQueue(t.Context(), "q", dibs.QueueChange{Order: new(dibs.Fair)}.Apply)
	must(t, err)
	queues := value[[]dibs.Queue](t)(db.Queues(t.Context()))
	recorded, keys := history.Wrap(db, rec), 0
	enqueue := func(group string) {
		keys++
		j := newJob(fmt.Sprint(keys))
		j.Queue, j.Group = "q", group
		_, err := recorded.Enqueue(t.Context(), []dibs.NewJob{j})
		must(t, err)
	}
	for i := range 120 {
		enqueue(fmt.Sprint("g", i%5))
		if i < 30 {
			continue
		}
		if i%aloneEvery == 0 {
			enqueue(fmt.Sprint("alone-", i))
		}
		jobs := value[[]*dibs.RawJob](t)(recorded.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1}))
		must(t, recorded.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	}
	must(t, rec.Close())
	return func() history.Evidence {
		e := value[history.Evidence](t)(history.Collect(t.Context(), db, dir))
		e.Queues = queues
		return e
	}
}

func TestDamagedTurnsAreFound(t *testing.T) {
	t.Parallel()
	evidence := turnsLoad(t)
	verdict := func(e history.Evidence) history.Verdict {
		all := history.Judge(e)
		return all[slices.IndexFunc(all, func(v history.Verdict) bool { return v.Promise == history.FairTurns })]
	}
	if v := verdict(evidence()); v.Checked == 0 || len(v.Broken) > 0 {
		t.Fatalf("undamaged: %d cases, %+v", v.Checked, v.Broken)
	}
	for name, do := range map[string]func(e *history.Evidence, starts []*history.Call, alone int){
		"a job that is alone starts in the place of one that started much later": func(e *history.Evidence, starts []*history.Call, alone int) {
			exchange(e, starts[alone].Jobs[0], starts[alone+3*aloneEvery].Jobs[0])
		},
		"a job that is alone was enqueued much earlier": func(e *history.Evidence, starts []*history.Call, alone int) {
			key, before := starts[alone].Jobs[0].Key, starts[alone-3*aloneEvery]
			for _, c := range e.Calls {
				if len(c.New) > 0 && c.New[0].Key == key {
					c.Begin, c.End = before.Begin, before.End
				}
			}
			slices.SortStableFunc(e.Calls, func(a, b *history.Call) int { return a.Begin.Compare(b.Begin) })
		},
	} {
		e := evidence()
		starts := slices.DeleteFunc(slices.Clone(e.Calls), func(c *history.Call) bool { return len(c.Jobs) == 0 })
		middle := len(starts) / 2
		alone := middle + slices.IndexFunc(starts[middle:], func(c *history.Call) bool { return c.Jobs[0].Group[0] == 'a' })
		do(&e, starts, alone)
		if v := verdict(e); len(v.Broken) == 0 {
			t.Errorf("%s: the judge did not find it in %d cases", name, v.Checked)
		}
	}
}

// exchange says of two jobs that each was claimed and finished when the other was.
func exchange(e *history.Evidence, a, b history.Job) {
	other := map[int64]history.Job{a.ID: b, b.ID: a}
	for _, c := range e.Calls {
		for i := range c.Jobs {
			if o, ok := other[c.Jobs[i].ID]; ok {
				c.Jobs[i].ID, c.Jobs[i].Key, c.Jobs[i].Sum, c.Jobs[i].Group = o.ID, o.Key, o.Sum, o.Group
			}
		}
		for i := range c.Outcomes {
			if o, ok := other[c.Outcomes[i].ID]; ok {
				c.Outcomes[i].ID = o.ID
			}
		}
	}
}
