package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
)

// Many claimers at once, over several stores with connections of their own.
var raceCases = []oneCase{
	{"every job is claimed exactly once and none is left", raceOnce},
	{"enqueuers and claimers at once lose and double nothing", raceEnqueue},
	{"groups run one at a time and in order, through crashes", raceGroupOrder},
	{"groups never run more than their limit, whichever it is just now", raceGroupLimit},
	{"the queue never runs more than its limit, whichever it is just now", raceConcurrency},
	{"abandoned jobs are taken over once", raceExpired},
}

// crew runs n goroutines on several stores, each with random numbers of its own,
// until all have returned or one has failed.
func (t *test) crew(n int, f func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error) {
	t.Helper()
	stores := []dibs.Database{t.db, t.Another(t), t.Another(t)}
	r := t.random()
	g, ctx := errgroup.WithContext(t.ctx)
	for i := range n {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		g.Go(func() error { return f(ctx, stores[i%len(stores)], own, i) })
	}
	t.must(g.Wait())
}

// drain claims and hands over jobs until the queue has none that is not final.
func drain(ctx context.Context, db dibs.Database, r *rand.Rand, worker int, handle func([]*dibs.RawJob) error) error {
	idle := time.NewTicker(10 * time.Millisecond)
	defer idle.Stop()
	for {
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(10), Worker: fmt.Sprintf("w%d", worker), Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			if err := handle(jobs); err != nil {
				return err
			}
			continue
		}
		left, err := db.List(ctx, dibs.Filter{Queue: dibs.DefaultQueue, Limit: 1})
		if err != nil || len(left.Jobs) == 0 {
			return err
		}
		if _, err := db.Sweep(ctx); err != nil {
			return err
		}
		select {
		case <-idle.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// register records who was given what. Invariants: a token belongs to one claim,
// and an attempt of a job to one token.
type register struct {
	mu       sync.Mutex
	tokens   map[dibs.Token]bool
	attempts map[int64]int // the last attempt given of each job
}

func newRegister() *register {
	return &register{tokens: map[dibs.Token]bool{}, attempts: map[int64]int{}}
}

// claimed records what one claim call gave.
func (g *register) claimed(jobs []*dibs.RawJob) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens[jobs[0].Token] {
		return fmt.Errorf("token %v was given to two claims", jobs[0].Token)
	}
	g.tokens[jobs[0].Token] = true
	for _, j := range jobs {
		if j.Token != jobs[0].Token {
			return fmt.Errorf("one claim has tokens %v and %v", j.Token, jobs[0].Token)
		}
		if j.Attempt <= g.attempts[j.ID] {
			return fmt.Errorf("job %d was given as attempt %d after attempt %d", j.ID, j.Attempt, g.attempts[j.ID])
		}
		g.attempts[j.ID] = j.Attempt
	}
	return nil
}

// given expects that each of these jobs was given exactly once.
func (g *register) given(t *test, all []int64) {
	t.Helper()
	equal(t, "jobs that were claimed", len(g.attempts), len(all))
	for _, id := range all {
		equal(t, "attempts", g.attempts[id], 1)
		equal(t, "attempt in the database", t.get(id).Attempt, 1)
	}
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, blocked, running, completed", []int64{s.Waiting, s.Blocked, s.Running, s.Completed}, []int64{0, 0, 0, int64(len(all))})
}

func raceSize(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// Requirement 1: in their experience the same work went to two threads.
func raceOnce(t *test) {
	all := t.enqueue(copies(raceSize(500), dibs.NewJob{Kind: "k"})...)
	g := newRegister()
	t.crew(9, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
			return errors.Join(g.claimed(jobs), db.Finish(ctx, outcomes(jobs, completed)))
		})
	})
	g.given(t, all)
}

func raceEnqueue(t *test) {
	g := newRegister()
	const enqueuers, batches = 3, 25
	all := make([][]int64, enqueuers)
	var done atomic.Int64 // enqueuers
	t.crew(enqueuers+6, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		for i >= enqueuers {
			last := done.Load() == enqueuers
			err := drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
				return errors.Join(g.claimed(jobs), db.Finish(ctx, outcomes(jobs, completed)))
			})
			if err != nil || last {
				return err
			}
		}
		defer done.Add(1)
		for range batches {
			var batch []dibs.NewJob
			for range 1 + r.IntN(20) {
				batch = append(batch, dibs.NewJob{Kind: "k", Priority: new(r.IntN(5))})
			}
			inserted, err := db.Enqueue(ctx, batch)
			if err != nil {
				return err
			}
			for _, e := range inserted {
				all[i] = append(all[i], e.ID)
			}
		}
		return nil
	})
	g.given(t, slices.Concat(all...))
}

// Invariants, where the queue's group limit is 1:
//   - no two jobs of a group run at once;
//   - each claim of a group gives its first job that is not completed, also after a crash.
func raceGroupOrder(t *test) {
	const groups = 12
	order := map[string][]int64{}
	each := raceSize(24)
	for range each {
		var batch []dibs.NewJob
		for g := range groups {
			batch = append(batch, grouped(fmt.Sprintf("g%d", g)))
		}
		for g, id := range t.enqueue(batch...) {
			name := fmt.Sprintf("g%d", g)
			order[name] = append(order[name], id)
		}
	}
	var mu sync.Mutex
	at, running := map[string]int{}, map[string]bool{}
	t.crew(8, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
			var finish []dibs.Outcome
			var crash []dibs.Lease
			mu.Lock()
			for _, j := range jobs {
				if want := order[j.Group][at[j.Group]]; j.ID != want || running[j.Group] {
					mu.Unlock()
					return fmt.Errorf("group %s: job %d was claimed, want %d; another runs: %v", j.Group, j.ID, want, running[j.Group])
				}
				running[j.Group] = true
			}
			mu.Unlock()
			mu.Lock() // so that others can run between
			for _, j := range jobs {
				running[j.Group] = false
				if r.IntN(20) == 0 {
					crash = append(crash, j.Lease())
					continue
				}
				at[j.Group]++
				finish = append(finish, j.Lease().Complete(nil))
			}
			mu.Unlock()
			_, err := db.Extend(ctx, crash, dibs.MinLease)
			return errors.Join(err, db.Finish(ctx, finish))
		})
	})
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(groups*each))
}

// Many find the same abandoned jobs; each is given to one of them.
func raceExpired(t *test) {
	n := raceSize(300)
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	crashed := t.claim(dibs.ClaimRequest{N: n, Worker: "crashed"})
	t.expire(crashed...)
	g := newRegister()
	t.crew(8, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
			return errors.Join(g.claimed(jobs), db.Finish(ctx, outcomes(jobs, completed)))
		})
	})
	equal(t, "jobs taken over", len(g.attempts), n)
	for _, id := range all {
		j := t.get(id)
		equal(t, "state, attempt", []any{j.State, j.Attempt}, []any{dibs.Completed, 2})
	}
}
