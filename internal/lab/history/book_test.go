package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// book is a history written by hand. Times are milliseconds; both clocks agree. Every
// call lasts a millisecond, unless a test changes its End. The key of job 7 is "k7".
type book struct {
	history.Evidence
	numbers map[string]int
	born    map[int64]*history.Call // the call that enqueued each job
	runAt   map[int64]int           // each job's run_at after the calls so far
	failed  map[int64]int           // how often each job has failed
	tx      string                  // the transaction of the next calls
}

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ms(n int) time.Time { return epoch.Add(time.Duration(n) * time.Millisecond) }

func token(n int) dibs.Token { return dibs.Token{byte(n), byte(n >> 8), byte(n >> 16), 1} }

func key(id int64) string { return fmt.Sprintf("k%d", id) }

func payload(id int64) []byte { return fmt.Appendf(nil, `{"key":%q}`, key(id)) }

// newBook returns a book with one queue, which has short leases, few attempts and no backoff.
func newBook() *book {
	b := &book{numbers: make(map[string]int), born: make(map[int64]*history.Call), runAt: make(map[int64]int), failed: make(map[int64]int)}
	q := dibs.DefaultSettings("q")
	q.Lease, q.MaxAttempts, q.Backoff.Base = 100*time.Millisecond, 5, 0
	b.Queues = []dibs.Queue{q}
	return b
}

// call adds a call that certainly took effect.
func (b *book) call(client string, verb history.Verb, at int) *history.Call {
	b.numbers[client]++
	c := &history.Call{Client: client, Number: b.numbers[client], Verb: verb, Tx: b.tx, Begin: ms(at), End: ms(at + 1), Fate: history.Done, Worker: client}
	b.Calls = append(b.Calls, c)
	return c
}

// removeAnswer takes the answer of a call away.
func removeAnswer(c *history.Call) *history.Call {
	c.End, c.Fate = time.Time{}, history.Unknown
	c.Jobs, c.Changed, c.Refused = nil, nil, nil
	for i := range c.New {
		c.New[i].ID = 0
	}
	return c
}

func (b *book) enqueue(at int, ids ...int64) *history.Call {
	c := b.call("p", history.Enqueue, at)
	for _, id := range ids {
		c.New = append(c.New, history.New{Key: key(id), Sum: history.Sum(payload(id)), ID: id, Queue: "q", Priority: 255})
		b.born[id], b.runAt[id] = c, at
	}
	return c
}

// claim adds a claim of attempt n of each job, with a lease of 100 ms. Its token is
// token(at).
func (b *book) claim(client string, at, n int, ids ...int64) *history.Call {
	c := b.call(client, history.Claim, at)
	c.Queue, c.Want = "q", 10
	for _, id := range ids {
		c.Jobs = append(c.Jobs, history.Job{
			ID: id, Key: key(id), Sum: history.Sum(payload(id)), Token: token(at), Attempt: n, MaxAttempts: 5, Priority: 255,
			RunAt: ms(b.runAt[id]), ClaimedAt: ms(at), LeaseUntil: ms(at + 100),
		})
	}
	return c
}

// finish adds a finish; claim is the time of the attempt's claim.
func (b *book) finish(client string, at int, ending dibs.Ending, claim int, ids ...int64) *history.Call {
	c := b.call(client, history.Finish, at)
	for _, id := range ids {
		c.Outcomes = append(c.Outcomes, dibs.Outcome{ID: id, Token: token(claim), Ending: ending})
		if ending == dibs.EndRetry || ending == dibs.EndSnooze {
			b.runAt[id] = at
		}
		if ending == dibs.EndRetry || ending == dibs.EndDead {
			b.failed[id]++
		}
	}
	return c
}

func (b *book) extend(client string, at, lease, claim int, id int64) *history.Call {
	c := b.call(client, history.Extend, at)
	c.Leases, c.Lease = []dibs.Lease{{ID: id, Token: token(claim)}}, time.Duration(lease)*time.Millisecond
	return c
}

func (b *book) operatorCall(verb history.Verb, at int, ids ...int64) *history.Call {
	c := b.call("o", verb, at)
	c.IDs, c.Changed = ids, ids
	return c
}

func (b *book) setQueue(at int, change dibs.QueueChange) *history.Call {
	c := b.call("o", history.SetQueue, at)
	c.Queue, c.Settings = "q", &change
	return c
}

// inTx puts the calls that f adds into a transaction, which ends at the time at.
func (b *book) inTx(tx string, at int, end history.Verb, f func()) *history.Call {
	b.tx = tx
	defer func() { b.tx = "" }()
	f()
	return b.call("t", end, at)
}

// setRefused makes the call's answer say that the leases of the jobs are lost.
func setRefused(c *history.Call, ids ...int64) *history.Call {
	c.Refused = ids
	return c
}

// setGroup puts all jobs of the calls into group g.
func setGroup(calls ...*history.Call) {
	for _, c := range calls {
		for i := range c.New {
			c.New[i].Group = "g"
		}
		for i := range c.Jobs {
			c.Jobs[i].Group = "g"
		}
	}
}

// atEnd adds jobs to the database at the end, as they were enqueued and with an error for
// each failure.
func (b *book) atEnd(state dibs.State, attempt int, ids ...int64) *book {
	for _, id := range ids {
		j := &dibs.RawJob{ID: id, Queue: "q", State: state, Attempt: attempt, MaxAttempts: 5, Priority: 255, Payload: payload(id)}
		b.Final = append(b.Final, j)
		if c := b.born[id]; c != nil {
			n := c.New[slices.IndexFunc(c.New, func(n history.New) bool { return n.Key == key(id) })]
			j.Group, j.Priority = n.Group, n.Priority
		}
		for n := range b.failed[id] {
			j.Errors = append(j.Errors, dibs.AttemptError{Attempt: n + 1})
		}
	}
	return b
}

func (b *book) evidence() history.Evidence {
	slices.SortStableFunc(b.Calls, func(x, y *history.Call) int { return x.Begin.Compare(y.Begin) })
	return b.Evidence
}

// page is a history and the expected judgement.
type page struct {
	name    string
	write   func(*book)
	promise int    // the broken promise; 0: none
	says    string // part of the message
}

// verdictOn returns the verdict on a promise, of whatever part.
func verdictOn(verdicts []history.Verdict, promise int) (all history.Verdict) {
	for _, v := range verdicts {
		if v.Number == promise {
			all.Checked, all.Broken = all.Checked+v.Checked, append(all.Broken, v.Broken...)
		}
	}
	return all
}

func TestJudgeOnHistoriesWrittenByHand(t *testing.T) {
	t.Parallel()
	for _, pages := range [][]page{existence, ownership, fencing, endings, numbering, limiting, ordering, effecting, uniqueness, asking, halving, waiting, flowing, adding, stepping, turning} {
		for _, p := range pages {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				b := newBook()
				p.write(b)
				e := b.evidence()
				verdicts := history.Judge(e)
				if p.promise == 0 {
					reportBroken(t, verdicts)
					checkOrders(t, e)
					return
				}
				found := verdictOn(verdicts, p.promise).Broken
				if len(found) == 0 {
					reportBroken(t, verdicts)
					t.Fatalf("the judge did not find promise %d broken", p.promise)
				}
				if !slices.ContainsFunc(found, func(v history.Violation) bool { return strings.Contains(v.Text, p.says) }) {
					t.Errorf("the message %q lacks %q", found[0].Text, p.says)
				}
			})
		}
	}
}
