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
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// recorded is a store that records its calls. It gives each new job a payload with a key, by
// which package history identifies the job.
type recorded struct {
	admin.Database
	keys *atomic.Int64
}

func (s recorded) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Payload = map[string]string{"key": fmt.Sprint(s.keys.Add(1))}
	}
	return s.Database.Enqueue(ctx, jobs)
}

// record makes the test's stores record all later calls and their answers. The function judge
// reports broken promises; call it when all jobs are final. Effects counts what transactions
// that finished each job wrote, or is nil.
func (t *test) record() (judge func(effects map[int64]int) []history.Verdict) {
	t.Helper()
	dir, keys, stores := t.TempDir(), new(atomic.Int64), new(atomic.Int64)
	recorder := func() *history.Recorder {
		rec, err := history.OpenIn(dir, fmt.Sprint("client-", stores.Add(1)))
		t.must(err)
		t.Cleanup(func() { _ = rec.Close() }) // the judge has read all lines that were written
		return rec
	}
	plain, another := t.db, t.Another
	t.rec = recorder()
	t.db = recorded{history.Wrap(plain, t.rec), keys}
	t.Another = func(tb testing.TB) admin.Database { return recorded{history.Wrap(another(tb), recorder()), keys} }
	return func(effects map[int64]int) []history.Verdict {
		t.Helper()
		start := dibs.DefaultSettings(dibs.DefaultQueue)
		e, err := history.Collect(t.ctx, plain, dir)
		if errors.Is(err, errors.ErrUnsupported) { // an adopted table does not list finished jobs, and rounds times
			start.KeepCompleted, e.LeaseSlack, err = 0, time.Second, nil
		}
		t.must(err)
		e.Queues = []dibs.Queue{start}
		e.Effects, e.Slack, e.OrderSlack = effects, 3*time.Second, 5*time.Second
		e.ClaimsAtOnce = t.OpenTx
		verdicts := history.Judge(e)
		for i, line := range history.Broken(verdicts) {
			if i < 10 {
				t.Error(line)
			}
		}
		return verdicts
	}
}
