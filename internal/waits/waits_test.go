package waits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestMain(m *testing.M) {
	needs.Split()
	goleak.VerifyTestMain(m)
}

// table is a database of jobs that a Group looks at.
type table struct {
	mu    sync.Mutex
	state map[int64]dibs.State // a job without a state is missing
	asked []int                // how many jobs each look asked about
	err   error
	slow  time.Duration
}

func (d *table) look(ctx context.Context, ids []int64) (found Found, err error) {
	if d.slow > 0 {
		select {
		case <-time.After(d.slow):
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, len(ids))
	for _, id := range ids {
		switch s := d.state[id]; {
		case len(found.Ended)+len(found.Missing) == MaxFound:
		case s == "":
			found.Missing = append(found.Missing, id)
		case s.Final():
			found.Ended = append(found.Ended, &dibs.RawJob{ID: id, State: s})
		}
	}
	return found, d.err
}

func (d *table) set(err error, s dibs.State, ids ...int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	for _, id := range ids {
		d.state[id] = s
	}
}

func (d *table) looks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

func newTable(jobs int64) (*table, *Group) {
	d := &table{state: map[int64]dibs.State{}}
	for id := range jobs {
		d.state[id+1] = dibs.Running
	}
	return d, &Group{Look: d.look}
}

// wait starts waiting for each job of a table.
func (d *table) wait(ctx context.Context, g *Group) (ends chan error) {
	ends = make(chan error, len(d.state))
	for id := range d.state {
		go func() {
			j, err := g.Wait(ctx, id)
			if err == nil && (j.ID != id || !j.State.Final()) {
				err = fmt.Errorf("waiting for job %d gave %+v", id, j)
			}
			ends <- err
		}()
	}
	return ends
}

// To wait for five thousand jobs costs as many looks as to wait for one.
func TestThousandsOfWaitersCostOneStatement(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		d, g := newTable(n)
		d.slow = time.Millisecond // calls that come meanwhile share the next look
		ends := d.wait(t.Context(), g)
		time.Sleep(time.Minute)
		synctest.Wait()
		before := d.looks()
		time.Sleep(time.Minute)
		if got := d.looks() - before; got > 61 {
			t.Errorf("%d looks in a minute, want one a second", got)
		}
		if before > 60+60 {
			t.Errorf("%d looks in the first minute", before)
		}
		for _, asked := range d.asked[before:] {
			if asked != n {
				t.Errorf("a look asked about %d jobs", asked)
			}
		}
		for id := range d.state {
			d.set(nil, dibs.Completed, id)
		}
		g.Ended(func() []int64 { return []int64{1} })
		synctest.Wait()
		for range n {
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Waiters that come one after the other are soon asked about together.
func TestWaitersOfDifferentTimesAreAskedAboutTogether(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		d, g := newTable(1000)
		for id := range d.state {
			go func() { _, _ = g.Wait(t.Context(), id) }()
			time.Sleep(777 * time.Microsecond)
		}
		time.Sleep(time.Minute)
		before := d.looks()
		time.Sleep(time.Minute)
		if got := d.looks() - before; got > 130 {
			t.Errorf("%d looks in a minute, want about one a second", got)
		}
		g.Close()
	})
}

// A wait notices the end of its job after at most a quarter of the time waited so far, or a second.
func TestHowLateAnEndIsSeen(t *testing.T) {
	needs.Race(t)
	for _, took := range []time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second, 3 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			d, g := newTable(1)
			ends := d.wait(t.Context(), g)
			began := time.Now()
			time.Sleep(took)
			d.set(nil, dibs.Dead, 1)
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
			if late := time.Since(began) - took; late > min(max(took/4, 5*time.Millisecond), time.Second) {
				t.Errorf("the end after %v was seen %v late", took, late)
			}
		})
	}
}

func TestEndedIsSeenAtOnce(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		d, g := newTable(2)
		ends := d.wait(t.Context(), g)
		time.Sleep(time.Hour)
		synctest.Wait()
		d.set(nil, dibs.Completed, 1)
		began := time.Now()
		g.Ended(func() []int64 { return []int64{1, 3} })
		if err := <-ends; err != nil || time.Since(began) > 0 {
			t.Errorf("gave %v after %v", err, time.Since(began))
		}
		g.Close()
		if err := <-ends; !errors.Is(err, dibs.ErrClosed) {
			t.Error(err)
		}
	})
	(&Group{}).Ended(func() []int64 { t.Error("asked for ids though nobody waits"); return nil })
}

func TestLooksThatFailAreRepeated(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		d, g := newTable(1)
		away := fmt.Errorf("no route: %w", dibs.ErrUnavailable)
		d.set(away, dibs.Running)
		ends := d.wait(t.Context(), g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := g.Wait(ctx, 1)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("waiting while the database was away gave %v", err)
		}
		d.set(nil, dibs.Completed, 1)
		if err := <-ends; err != nil {
			t.Error(err)
		}
		d.set(dibs.ErrDenied, dibs.Running, 1)
		if _, err := g.Wait(t.Context(), 1); !errors.Is(err, dibs.ErrDenied) {
			t.Errorf("an error that stays gave %v", err)
		}
		d.set(nil, dibs.Running)
		d.slow = time.Hour // each look times out
		if _, err := g.Wait(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave %v", err)
		}
	})
}

// No goroutine is left once the last waiter has gone, though a look is under way.
func TestTheLastWaiterEndsTheGoroutine(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		d, g := newTable(10)
		d.slow = time.Hour
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			ends := d.wait(ctx, g)
			time.Sleep(time.Second)
			cancel()
			for range 10 {
				if err := <-ends; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			synctest.Wait()
			g.mu.Lock()
			if g.stop != nil || len(g.jobs) > 0 || g.waiting.Load() != 0 {
				t.Error("something is left")
			}
			g.mu.Unlock()
		}
		began := time.Now()
		g.looking.Wait()
		if time.Since(began) > 0 {
			t.Error("the goroutine went on")
		}
	})
}

func TestAJobThatIsGoneSaysWhy(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		d, g := newTable(1)
		_, never := g.Wait(t.Context(), 7)
		ends := d.wait(t.Context(), g)
		time.Sleep(time.Second)
		d.set(nil, "", 1)
		gone := <-ends
		if !errors.Is(never, dibs.ErrNotFound) || !errors.Is(gone, dibs.ErrNotFound) || never.Error() != "dibs: wait for job 7: no such job" || len(gone.Error()) < 60 {
			t.Errorf("the errors are %q and %q", never, gone)
		}
	})
}

// A look that began before a waiter came may have seen an end that was undone since.
func TestAnOlderLookDoesNotAnswer(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		g := &Group{}
		g.Look = func(_ context.Context, ids []int64) (Found, error) {
			n := looks.Add(1)
			time.Sleep(time.Second)
			return Found{Ended: []*dibs.RawJob{{ID: ids[0], State: dibs.Dead, Attempt: int(n)}}}, nil
		}
		first := make(chan int, 1)
		go func() {
			j, _ := g.Wait(t.Context(), 1)
			first <- j.Attempt
		}()
		time.Sleep(time.Millisecond)
		j, err := g.Wait(t.Context(), 1)
		if err != nil || j.Attempt != 2 || <-first != 1 {
			t.Errorf("got %+v, %v", j, err)
		}
	})
}
