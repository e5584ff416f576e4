package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// txStepCases run for every kind of transaction.
var txStepCases = []oneCase{
	{"a step and its effect happen together or not at all", txSteps},
	{"a step is refused whose lease is lost, and one claimed in the transaction is held", txStepsFenced},
	{"a worker has the effect of each step once", txStepsWorker},
}

// workSteps runs a worker with a handler until the jobs have ended.
func (t *test) workSteps(handle func(context.Context, *dibs.Job[string]) error, jobs ...int64) {
	t.Helper()
	w := &dibs.Worker{Store: t.db, Name: "w", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	dibs.Handle(w, "k", handle)
	ctx, stop := context.WithCancel(t.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for _, id := range jobs {
		_, err := t.db.Wait(t.ctx, id)
		t.must(err)
	}
	stop()
	t.must(<-ended)
}

func stepsWorker(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: "p"})[0]
	calls := map[string]int{}
	handle := func(ctx context.Context, job *dibs.Job[string]) error {
		step := func(name string) func(context.Context) (int, error) {
			return func(context.Context) (int, error) {
				calls[name]++
				if calls[name] == 1 && name == "fails" {
					return 0, dibs.RetryAfter(0, errors.New("no"))
				}
				return 10*calls[name] + len(name), nil
			}
		}
		for _, name := range []string{"a", "fails", "bb", "a"} {
			n, err := dibs.Step(ctx, job, name, step(name))
			if err != nil {
				return err
			}
			if want := 10*calls[name] + len(name); n != want {
				return dibs.Die(fmt.Errorf("step %s gave %d, want %d", name, n, want))
			}
		}
		switch job.Attempt {
		case 2:
			return dibs.Snooze(0)
		case 3:
			panic("attempt 3")
		case 4:
			_, err := dibs.Step(ctx, job, "a", func(context.Context) (string, error) { return "", nil })
			return dibs.RetryAfter(0, err)
		}
		return nil
	}
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &dibs.Backoff{Base: time.Millisecond, Factor: 1, Max: time.Millisecond}})
	t.workSteps(handle, id)
	equal(t, "calls", calls, map[string]int{"a": 1, "fails": 2, "bb": 1})
	j := t.get(id)
	equal(t, "state and attempts", []any{j.State, j.Attempt}, []any{dibs.Completed, 5})
	if last := j.Errors[len(j.Errors)-1].Error; !strings.Contains(last, `step "a" of job`) || !strings.Contains(last, "does not decode into string") {
		t.Fatalf("a value of another type gives %q", last)
	}
}

func txSteps(t *test) {
	count := t.effects()
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{})
	charge := func(tx Tx) (string, error) {
		return dibs.StepIn(t.ctx, tx.Tx, j, "charge", func(ctx context.Context) (string, error) {
			return "charged", tx.Exec(ctx, effect(j.ID))
		})
	}
	tx := t.beginTx()
	value, err := charge(tx)
	t.must(err)
	equal(t, "value", value, "charged")
	t.must(tx.Rollback())
	equal(t, "effects after the rollback", count(), 0)
	t.expectSteps(j.Lease())

	tx = t.beginTx()
	_, err = charge(tx)
	t.must(err)
	_, err = charge(tx) // seen in its own transaction
	t.must(err)
	t.must(tx.Commit())
	t.expectSteps(j.Lease(), `charge="charged"`)
	tx = t.beginTx()
	value, err = charge(tx)
	t.must(err)
	equal(t, "value", value, "charged")
	t.must(tx.Commit())
	equal(t, "effects", count(), 1)
}

func txStepsFenced(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	old := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	t.waitForExpiry(old)
	tx := t.beginTx()
	err := t.stepsIn(tx).PutStep(t.ctx, old.Lease(), "a", json.RawMessage("1"))
	if !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatalf("got %v", err)
	}
	jobs, err := tx.Claim(t.ctx, dibs.ClaimRequest{Worker: "w", N: 1, Lease: dibs.MinLease})
	t.must(err)
	equal(t, "claimed", len(jobs), 1)
	own := jobs[0]
	t.must(t.stepsIn(tx).PutStep(t.ctx, own.Lease(), "a", json.RawMessage("1")))
	all, err := t.stepsIn(tx).Steps(t.ctx, own.Lease())
	t.must(err)
	equal(t, "steps", len(all), 1)
	t.must(tx.Rollback())
	t.expectSteps(dibs.Lease{ID: own.ID})
}

func txStepsWorker(t *test) {
	count := t.effects()
	all := t.enqueue(copies(5, dibs.NewJob{Kind: "k", Payload: "p"})...)
	t.workSteps(func(ctx context.Context, job *dibs.Job[string]) error {
		tx, err := t.begin(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		defer tx.Rollback()
		_, err = dibs.StepIn(ctx, tx.Tx, job, "charge", func(ctx context.Context) (bool, error) { return true, tx.Exec(ctx, effect(job.ID)) })
		if err != nil {
			return err
		}
		if job.Attempt%3 != 2 {
			if err := tx.Commit(); err != nil {
				return err
			}
		} else if err := tx.Rollback(); err != nil {
			return err
		}
		if job.Attempt < 4 {
			return dibs.RetryAfter(0, errors.New("again"))
		}
		return nil
	}, all...)
	equal(t, "effects", count(), len(all))
}
