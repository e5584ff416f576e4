package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// recorded is a store whose calls are recorded, and which gives each new job a payload by which
// package history knows it.
type recorded struct {
	dibs.Database
	keys *atomic.Int64
}

func (s recorded) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Payload = map[string]string{"key": fmt.Sprint(s.keys.Add(1))}
	}
	return s.Database.Enqueue(ctx, jobs)
}

// record has whatever the test's stores are asked and answer written down from here on. judge
// reports the promises that were broken, once all jobs are final; effects are how many were
// written for each job in transactions that finished it, nil if there are none.
func (t *test) record() (judge func(effects map[int64]int)) {
	t.Helper()
	dir, keys, stores := t.TempDir(), new(atomic.Int64), new(atomic.Int64)
	recorder := func() *history.Recorder {
		rec, err := history.OpenIn(dir, fmt.Sprint("client-", stores.Add(1)))
		t.must(err)
		t.Cleanup(func() { _ = rec.Close() }) // whatever was judged, was written
		return rec
	}
	plain, another := t.db, t.Another
	t.rec = recorder()
	t.db = recorded{history.Wrap(plain, t.rec), keys}
	t.Another = func(tb testing.TB) dibs.Database { return recorded{history.Wrap(another(tb), recorder()), keys} }
	return func(effects map[int64]int) {
		t.Helper()
		start := dibs.DefaultSettings(dibs.DefaultQueue)
		e, err := history.Collect(t.ctx, plain, dir)
		if errors.Is(err, errors.ErrUnsupported) { // somebody else's table: what is final is not listed, times are rounded
			start.KeepCompleted, e.LeaseSlack, err = 0, time.Second, nil
		}
		t.must(err)
		e.Queues = []dibs.Queue{start}
		e.Effects, e.Slack, e.OrderSlack = effects, promptly-2*time.Second, promptly
		for i, line := range history.Broken(history.Judge(e)) {
			if i < 10 {
				t.Error(line)
			}
		}
	}
}
