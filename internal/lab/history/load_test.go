package history_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
)

// client makes random calls, right ones and wrong ones: it forgets jobs, and finishes them
// late, twice and with the wrong token.
type client struct {
	t       *testing.T
	name    string
	db      admin.Database
	rand    *rand.Rand
	keys    int
	held    []*dibs.RawJob // the jobs to finish, even if their leases have ended
	ids     []int64
	effects *effects
	lease   time.Duration // the shortest lease of a claim
}

type effects struct {
	sync.Mutex
	counts map[int64]int
}

var errMistake = errors.New("a mistake of the program's")

func (c *client) step() {
	ctx := c.t.Context()
	switch n := c.rand.IntN(100); {
	case n < 25:
		done, err := c.db.Enqueue(ctx, c.batch())
		c.expectError(err)
		c.addIDs(done)
	case n < 32:
		err := c.db.InTx(ctx, func(tx dibs.Tx) error {
			if _, err := tx.Enqueue(ctx, c.batch()); err != nil {
				return err
			}
			return c.sometimesFail()
		})
		c.expectError(err)
	case n < 60:
		jobs, err := c.db.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: c.name, N: 1 + c.rand.IntN(8), Lease: c.lease + time.Duration(c.rand.Int64N(2*int64(c.lease)))})
		c.expectError(err)
		c.held = append(c.held, jobs...)
	case n < 63:
		c.claimInTx()
	case n < 64:
		jobs, err := c.db.Resume(ctx, dibs.ClaimRequest{Queue: "q", Worker: c.name, Lease: 2 * c.lease})
		c.expectError(err)
		c.held = append(c.held, jobs...)
	case n < 66:
		c.extend()
	case n < 68:
		c.doSteps()
	case n < 85:
		c.expectError(c.db.Finish(ctx, c.outcomes(1+c.rand.IntN(6))))
	case n < 92:
		c.finishInTx()
	default:
		c.operate()
	}
}

func (c *client) expectError(err error) {
	if err != nil && !errors.Is(err, dibs.ErrLeaseLost) && !errors.Is(err, errMistake) {
		c.t.Error(err)
	}
}

func (c *client) sometimesFail() error {
	if c.rand.IntN(3) == 0 {
		return errMistake
	}
	return nil
}

func (c *client) addIDs(done []dibs.Enqueued) {
	for _, d := range done {
		c.ids = append(c.ids, d.ID)
	}
}

func (c *client) batch() []dibs.NewJob {
	jobs := make([]dibs.NewJob, 1+c.rand.IntN(4))
	for i := range jobs {
		c.keys++
		j := newJob(fmt.Sprintf("%s-%d", c.name, c.keys))
		priority := c.rand.IntN(3)
		j.Queue, j.Priority, j.MaxAttempts = "q", &priority, 1+c.rand.IntN(4)
		if c.rand.IntN(3) == 0 {
			j.Group = fmt.Sprintf("g%d", c.rand.IntN(4))
		}
		if c.rand.IntN(6) == 0 {
			j.UniqueKey = fmt.Sprintf("u%d", c.rand.IntN(10))
			if c.rand.IntN(2) == 0 {
				j.UniqueUntil = dibs.UntilClaimed
			}
		}
		if c.rand.IntN(5) == 0 {
			j.Delay = time.Duration(c.rand.IntN(50)) * time.Millisecond
		}
		if i > 0 && c.rand.IntN(2) == 0 {
			need := []dibs.Need{dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed}[c.rand.IntN(3)]
			j.After = []dibs.Dep{{Ref: fmt.Sprint(c.rand.IntN(i)), On: need}}
		}
		j.Ref = fmt.Sprint(i)
		jobs[i] = j
	}
	return jobs
}

// doSteps writes the next two steps of a job, under a lease that may be lost.
func (c *client) doSteps() {
	store := c.db.(dibs.StepStore)
	for _, j := range c.someHeld(1) {
		c.held = append(c.held, j)
		for range 2 {
			done, err := store.Steps(c.t.Context(), j.Lease())
			c.expectError(err)
			c.expectError(store.PutStep(c.t.Context(), j.Lease(), fmt.Sprint(len(done)), []byte(`"`+j.Token.String()+`"`)))
		}
	}
}

// someHeld takes up to n of the client's held jobs. One in ten also stays held, so that it is
// finished again.
func (c *client) someHeld(n int) []*dibs.RawJob {
	var jobs []*dibs.RawJob
	seen := make(map[int64]bool)
	for range n {
		if len(c.held) == 0 {
			break
		}
		i := c.rand.IntN(len(c.held))
		if j := c.held[i]; !seen[j.ID] {
			seen[j.ID] = true
			jobs = append(jobs, j)
		}
		if c.rand.IntN(10) > 0 {
			c.held[i] = c.held[len(c.held)-1]
			c.held = c.held[:len(c.held)-1]
		}
	}
	return jobs
}

func (c *client) outcomes(n int) []dibs.Outcome {
	outcomes := []dibs.Outcome{{ID: 1 << 40, Token: dibs.Token{1}, Ending: dibs.EndCompleted}} // this job does not exist
	for _, j := range c.someHeld(n) {
		l := j.Lease()
		var o dibs.Outcome
		switch c.rand.IntN(12) {
		case 0, 1:
			o = l.RetryAfter(time.Duration(c.rand.IntN(30))*time.Millisecond, "error of "+l.Token.String())
		case 2:
			o = l.Snooze(time.Duration(1+c.rand.IntN(30)) * time.Millisecond)
		case 3:
			o = l.Release()
		case 4:
			o = l.Die("error of " + l.Token.String())
		case 5:
			l.Token[0]++
			o = l.Complete([]byte(`"of a wrong token"`))
		default:
			o = l.Complete([]byte(`"` + l.Token.String() + `"`))
			if c.rand.IntN(6) == 0 {
				o.Add = c.batch()
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// claimInTx claims jobs and ends the first half of them in the same transaction.
func (c *client) claimInTx() {
	var kept []*dibs.RawJob
	c.expectError(c.db.InTx(c.t.Context(), func(tx dibs.Tx) error {
		jobs, err := tx.Claim(c.t.Context(), dibs.ClaimRequest{Queue: "q", Worker: c.name, N: 1 + c.rand.IntN(3), Lease: c.lease})
		if err != nil {
			return err
		}
		var ends []dibs.Outcome
		for _, j := range jobs[:len(jobs)/2] {
			ends = append(ends, j.Lease().Snooze(time.Millisecond))
		}
		if err := tx.Finish(c.t.Context(), ends); err != nil {
			return err
		}
		if err := c.sometimesFail(); err != nil {
			return err
		}
		kept = jobs[len(jobs)/2:]
		return nil
	}))
	c.held = append(c.held, kept...)
}

func (c *client) finishInTx() {
	outcomes := c.outcomes(2)[1:]
	if len(outcomes) == 0 {
		return
	}
	err := c.db.InTx(c.t.Context(), func(tx dibs.Tx) error {
		if err := tx.Finish(c.t.Context(), outcomes); err != nil {
			return err
		}
		return c.sometimesFail()
	})
	c.expectError(err)
	if err != nil {
		return
	}
	c.effects.Lock()
	defer c.effects.Unlock()
	for _, o := range outcomes {
		if o.Ending == dibs.EndCompleted {
			c.effects.counts[o.ID]++
		}
	}
}

func (c *client) extend() {
	var leases []dibs.Lease
	for _, j := range c.someHeld(3) {
		leases = append(leases, j.Lease())
		c.held = append(c.held, j)
	}
	if len(leases) > 0 {
		_, err := c.db.Extend(c.t.Context(), leases, c.lease+time.Duration(c.rand.Int64N(2*int64(c.lease))))
		c.expectError(err)
	}
}

// operate makes a random call of an operator.
func (c *client) operate() {
	ctx := c.t.Context()
	if len(c.ids) == 0 {
		return
	}
	ids := []int64{c.ids[c.rand.IntN(len(c.ids))]}
	limit, yes := 1+c.rand.IntN(3), c.rand.IntN(2) == 0
	none := 0
	var err error
	switch c.rand.IntN(10) {
	case 0, 1:
		_, _, err = c.db.Cancel(ctx, ids)
	case 2, 3:
		_, err = c.db.Requeue(ctx, ids, time.Time{})
	case 4, 5:
		_, err = c.db.Edit(ctx, ids, admin.Edit{Priority: &limit})
	case 6:
		_, err = c.db.ChangeQueue(ctx, "q", dibs.QueueChange{GroupLimit: &limit}.Apply)
	case 7:
		err = c.db.ChangeGroup(ctx, "q", "g1", dibs.GroupChange{Limit: new(limit - 1)}.Apply)
	case 8:
		limit += 20
		_, err = c.db.ChangeQueue(ctx, "q", dibs.QueueChange{Strict: &yes, Concurrency: &limit}.Apply)
	case 9:
		_, err = c.db.ChangeQueue(ctx, "q", dibs.QueueChange{Concurrency: &none}.Apply)
	}
	c.expectError(err)
}

// drain completes all jobs that are left.
func (c *client) drain() {
	none := 0
	_, err := c.db.ChangeQueue(c.t.Context(), "q", dibs.QueueChange{Concurrency: &none}.Apply)
	c.expectError(err)
	for {
		jobs, err := c.db.Claim(c.t.Context(), dibs.ClaimRequest{Queue: "q", Worker: c.name, N: 100})
		must(c.t, err)
		outcomes := make([]dibs.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = j.Lease().Complete(nil)
		}
		if len(jobs) > 0 {
			must(c.t, c.db.Finish(c.t.Context(), outcomes))
			continue
		}
		live, err := c.db.List(c.t.Context(), admin.Filter{Queue: "q", Limit: 1})
		must(c.t, err)
		if len(live.Jobs) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond) // wait until the leases of forgotten jobs end
	}
}

// load runs clients that make the given number of steps each, and returns the evidence.
func load(t *testing.T, db admin.Database, dir string, lease time.Duration, clients, steps int, seed uint64) history.Evidence {
	t.Helper()
	t.Logf("seed %d", seed)
	_, err := db.ChangeQueue(t.Context(), "q", dibs.QueueChange{}.Apply)
	must(t, err)
	queues, err := db.Queues(t.Context())
	must(t, err)
	all := &effects{counts: make(map[int64]int)}
	var wait sync.WaitGroup
	run := func(n int, f func(*client)) {
		name := fmt.Sprintf("c%d", n)
		r, err := history.OpenIn(dir, name)
		must(t, err)
		c := &client{t: t, name: name, db: history.Wrap(db, r), rand: rand.New(rand.NewPCG(seed, uint64(n))), effects: all, lease: lease}
		wait.Go(func() {
			f(c)
			must(t, r.Close())
		})
	}
	for n := range clients {
		run(n, func(c *client) {
			for range steps {
				c.step()
			}
		})
	}
	wait.Wait()
	run(clients, (*client).drain)
	wait.Wait()
	e, err := history.Collect(t.Context(), db, dir)
	must(t, err)
	e.Effects, e.Queues = all.counts, queues
	return e
}

// reportBroken fails the test for each broken promise.
func reportBroken(t *testing.T, verdicts []history.Verdict) {
	t.Helper()
	for _, v := range verdicts {
		t.Logf("promise %d: %d checked, %d broken", v.Number, v.Checked, len(v.Broken))
		for i, b := range v.Broken {
			t.Errorf("promise %d: %s", v.Number, b.Text)
			for _, c := range b.Calls {
				t.Logf("  %s %d %s %s [%v, %v] %s tx=%s %s jobs=%+v out=%+v refused=%v changed=%v", c.Client, c.Number, c.Verb, c.Queue, c.Begin.Format("15:04:05.000000"), c.End.Format("15:04:05.000000"), c.Fate, c.Tx, c.Error, c.Jobs, c.Outcomes, c.Refused, c.Changed)
			}
			if i == 3 {
				break
			}
		}
	}
}

func TestARandomLoadBreaksNothing(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db, r, dir := open(t, "nobody")
	must(t, r.Close())
	e := load(t, db, dir, 100*time.Millisecond, 4, 300, rand.Uint64())
	reportBroken(t, history.Judge(e))
	if checked, undecided := checkOrders(t, e); checked == 0 || undecided > 0 {
		t.Errorf("%d jobs checked for linearizability, %d undecided", checked, undecided)
	}
}
