package dibs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestTypedHandlerGetsItsPayloadAndLeavesAResult(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		type order struct{ Number int }
		w := quiet(m, nil)
		dibs.Handle(w, "order", func(_ context.Context, job *dibs.Job[order]) error {
			return job.SetResult(job.Payload.Number * 2)
		})
		stop := run(t, w)
		ids := enqueue(t, m,
			dibs.NewJob{Kind: "order", Payload: `{"number":21}`},
			dibs.NewJob{Kind: "order", Payload: `{"number":"many"}`},
			dibs.NewJob{Kind: "order", Payload: `{"number":4}`},
			dibs.NewJob{Kind: "unknown"})
		synctest.Wait()
		stopped(t, stop)
		if a, b := m.job(ids[0]), m.job(ids[2]); string(a.Result) != "42" || string(b.Result) != "8" {
			t.Errorf("results are %s and %s", a.Result, b.Result)
		}
		if job := m.job(ids[1]); job.State != dibs.Waiting || !strings.HasPrefix(job.Errors[0].Error, "payload of job 2 (kind \"order\") does not decode into dibs_test.order") {
			t.Errorf("job with a broken payload is %s with history %v", job.State, job.Errors)
		}
		if job := m.job(ids[3]); job.Attempt != 0 {
			t.Error("a job without a handler was claimed")
		}
	})
}

func TestResultThatCannotBeStoredFailsOnlyItsOwnAttempt(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		results := map[int64]string{1: `{"a":1}`, 2: `{"a":`, 3: `"` + strings.Repeat("x", dibs.MaxResult) + `"`, 4: "\"\xff\"", 5: `"poison"`}
		stop := run(t, quiet(m, func(_ context.Context, job *dibs.RawJob) error {
			job.Result = []byte(results[job.ID])
			return nil
		}))
		ids := enqueue(t, m, plain(6)...)
		time.Sleep(5 * time.Second)
		stopped(t, stop)
		for i, text := range []string{
			"", "result: is not valid JSON", fmt.Sprintf("result: is %d bytes, the limit is %d", dibs.MaxResult+2, dibs.MaxResult), "result: is not valid JSON",
			`the outcome "completed" could not be written: ` + errPoison.Error(), "",
		} {
			job := m.job(ids[i])
			if text == "" {
				if job.State != dibs.Completed {
					t.Errorf("job %d is %s", job.ID, job.State)
				}
			} else if job.State != dibs.Waiting || job.Errors[0].Error != text {
				t.Errorf("job %d is %s with history %v, want %q", job.ID, job.State, job.Errors, text)
			}
		}
	})
}

func TestRegisteringAKindTwiceIsAProgrammersError(t *testing.T) {
	t.Parallel()
	h := func(context.Context, *dibs.RawJob) error { return nil }
	for name, register := range map[string]func(w *dibs.Worker){
		"twice":   func(w *dibs.Worker) { w.HandleRaw("a", h); w.HandleRaw("a", h) },
		"no kind": func(w *dibs.Worker) { dibs.Handle(w, "", func(context.Context, *dibs.Job[int]) error { return nil }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: did not panic", name)
				}
			}()
			register(&dibs.Worker{})
		}()
	}
}

func TestAHandlerGetsTheRowAndItsOwnPayload(t *testing.T) {
	t.Parallel()
	raw := dibs.RawJob{ID: 7, Queue: "q", Payload: []byte(`"text"`), RunAt: time.Unix(1, 0), Errors: []dibs.AttemptError{{Attempt: 1}}}
	job := dibs.Job[string]{RawJob: raw, Payload: "text"}
	if text, err := json.Marshal(job); err != nil || !strings.Contains(string(text), `"payload":"text"`) || strings.Count(string(text), "payload") != 1 {
		t.Errorf("as JSON it is %s, %v", text, err)
	}
	if err := job.SetResult(1); err != nil || raw.Result != nil {
		t.Errorf("the handler's result %s is in the worker's own copy, %v", raw.Result, err)
	}
}
