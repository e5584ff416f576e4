package dibs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/internal/chars"
)

// StepStore is a store that keeps the steps of jobs, as packages sqlite and postgres do. Their [Tx] is one too: there
// a step is done if and only if the transaction commits.
type StepStore interface {
	// Steps lists what the attempts of a job have done so far, the first first. It refuses a lease that is lost with
	// ErrLeaseLost. Without a token it reads the steps of any job, for those who only look.
	Steps(ctx context.Context, l Lease) ([]StepDone, error)

	// PutStep writes that a step is done. It refuses a lease that is lost with ErrLeaseLost, and writes nothing then.
	// A step is written once: the same again changes nothing, another value is an InvalidError. So a call may be repeated
	// whose fate is not known. No other call can take or end the job until a transaction ends that has put one of its
	// steps; nor can its lease be extended, so commit soon.
	PutStep(ctx context.Context, l Lease, name string, value json.RawMessage) error
}

// StepDone is one step of a job that is done.
type StepDone struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// handled is what a handler gets: a *RawJob, or a *Job of any payload.
type handled interface{ attempted() *RawJob }

func (j *RawJob) attempted() *RawJob { return j }

func (j *Job[T]) attempted() *RawJob {
	if j == nil {
		return nil
	}
	return &j.RawJob
}

// Step does a part of a job that later attempts must not do again. It calls f, and writes what f returns, under the
// step's name, at once. A later attempt finds it there and gets the value without a call of f, also after a SIGKILL.
// What stands between steps is ordinary code, and runs in every attempt; to sleep between steps, return [Snooze].
//
// If f fails or panics, nothing is written, and Step returns its error. If the worker dies between the end of f and the
// write, f is called again: what it does elsewhere must bear that, as by an idempotency key made of the job's id and the
// step's name. For an effect in the same database, [StepIn] leaves no such gap.
//
// A name stands for the same step in all attempts, and is at most MaxName bytes; in a loop it needs the item's key in it.
// Two calls of one name in one attempt call f once. The value is encoded as JSON, at most MaxResult bytes and MaxDepth
// deep; a job has at most MaxSteps steps, of MaxStepsTotal bytes in all. A later release must be able to decode the values
// that an earlier one has written; one that it cannot decode fails the attempt.
//
// A worker that has lost the job gets ErrLeaseLost and writes nothing. While the database is unavailable, Step repeats
// its calls to it until ctx ends. Steps stay with the job when it is retried, snoozed, released or requeued, and are
// deleted with it.
func Step[V any](ctx context.Context, job handled, name string, f func(ctx context.Context) (V, error)) (V, error) {
	return takeStep(ctx, job, nil, name, f)
}

// StepIn is [Step] in the handler's own transaction: f writes its effects there, and the step is done if and only if the
// transaction commits. So they happen exactly once. On an error roll back, and return it. The step is written when f has
// returned; from then on the job's lease cannot be extended until the transaction ends. It works for jobs that were
// claimed without a [Worker], too.
func StepIn[V any](ctx context.Context, tx Tx, job handled, name string, f func(ctx context.Context) (V, error)) (V, error) {
	if tx == nil {
		var none V
		return none, &InvalidError{"tx", "is nil; give what a store's Tx or SQLTx returns"}
	}
	return takeStep(ctx, job, tx, name, f)
}

func takeStep[V any](ctx context.Context, job handled, tx Tx, name string, f func(ctx context.Context) (V, error)) (v V, err error) {
	var none V
	j, err := stepJob(ctx, job, name)
	if err != nil {
		return none, err
	}
	if f == nil {
		return none, &InvalidError{"f", "is nil; give the function that does the step"}
	}
	s, err := j.stepper(tx)
	if err != nil {
		return none, err
	}
	raw, done, err := s.take(ctx, j, name, func() (raw json.RawMessage, err error) {
		if v, err = f(ctx); err != nil {
			return nil, err
		}
		return encodeStep(name, v)
	})
	if err != nil {
		return none, err
	}
	if done {
		v = none
		if err := json.Unmarshal(raw, &v); err != nil {
			return none, fmt.Errorf("step %q of job %d is done, but its value does not decode into %T: %w", name, j.ID, v, err)
		}
	}
	return v, nil
}

// stepJob refuses the arguments of a step before anything is done.
func stepJob(ctx context.Context, job handled, name string) (*RawJob, error) {
	if ctx == nil {
		return nil, &InvalidError{"ctx", "is nil"}
	}
	if job == nil {
		return nil, &InvalidError{"job", "is nil"}
	}
	j := job.attempted()
	switch {
	case j == nil:
		return nil, &InvalidError{"job", "is nil"}
	case name == "":
		return nil, &InvalidError{"step", "is missing"}
	case len(name) > MaxName:
		return nil, &InvalidError{"step", fmt.Sprintf("is %d bytes, the limit is %d", len(name), MaxName)}
	case !utf8.ValidString(name):
		return nil, &InvalidError{"step", "is not valid UTF-8"}
	case strings.ContainsFunc(name, chars.Unsafe):
		return nil, &InvalidError{"step", fmt.Sprintf("must not contain control characters, or such as turn the direction of text, got %q", name)}
	}
	return j, ctx.Err()
}

func encodeStep(name string, v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, &InvalidError{"step.value", fmt.Sprintf("of %q cannot be encoded as JSON: %v", name, err)}
	}
	var e *InvalidError
	if err := checkResult(raw); errors.As(err, &e) {
		return nil, &InvalidError{"step.value", fmt.Sprintf("of %q %s", name, e.Reason)}
	}
	return raw, nil
}

// steps are those of one attempt.
type steps struct {
	store StepStore
	inTx  bool // store is the handler's transaction

	*stepsKnown
}

// stepsKnown is what an attempt knows of its job's steps.
type stepsKnown struct {
	mu    sync.Mutex
	read  bool                       // the steps of earlier attempts are in done, or there are none
	done  map[string]json.RawMessage // committed steps
	open  map[string]bool            // steps that StepIn has put: the worker does not know whether they were committed
	doing map[string]chan struct{}   // steps that are being done; closed at their end
}

// stepper finds the store that keeps the steps. What the attempt knows of them is made at its first step.
func (j *RawJob) stepper(tx Tx) (steps, error) {
	var place any = tx
	known := &stepsKnown{}
	switch h := j.handling; {
	case h != nil:
		h.steps.CompareAndSwap(nil, &stepsKnown{read: j.Attempt == 1}) // attempts only grow: before the first nobody has done a step
		if known = h.steps.Load(); tx == nil {
			place = h.store
		}
	case tx == nil:
		return steps{}, &InvalidError{"job", "is none that a worker has given to its handler; use StepIn"}
	}
	store, ok := place.(StepStore)
	if !ok {
		return steps{}, &InvalidError{"store", fmt.Sprintf("keeps no steps (%T): they need the tables of dibs", place)}
	}
	return steps{store, tx != nil, known}, nil
}

// take returns the value of a step that is done, or does it by f.
func (s steps) take(ctx context.Context, j *RawJob, name string, f func() (json.RawMessage, error)) (raw json.RawMessage, done bool, err error) {
	end, err := s.begin(ctx, name)
	if err != nil {
		return nil, false, err
	}
	defer end()
	if raw, done, err = s.find(ctx, j, name); err != nil || done {
		return raw, done, err
	}
	if raw, err = f(); err != nil {
		return nil, false, err
	}
	if err := s.put(ctx, j, name, raw); err != nil {
		s.mu.Lock()
		s.read = false // it may be written all the same: the next call looks
		s.mu.Unlock()
		return nil, false, fmt.Errorf("step %q of job %d ran, and is not written: %w", name, j.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inTx {
		s.open = with(s.open, name, true)
	} else {
		s.done = with(s.done, name, raw)
	}
	return raw, false, nil
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = value
	return m
}

// begin waits until nobody else in the attempt does the step.
func (s steps) begin(ctx context.Context, name string) (end func(), err error) {
	for {
		s.mu.Lock()
		other := s.doing[name]
		if other == nil {
			own := make(chan struct{})
			s.doing = with(s.doing, name, own)
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.doing, name)
				s.mu.Unlock()
				close(own)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find looks for a step among those that are done. It reads them from the database at the first step of an attempt that
// is not the first, and for a step that a transaction of the handler has put.
func (s steps) find(ctx context.Context, j *RawJob, name string) (raw json.RawMessage, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if raw, done = s.done[name]; done {
		return raw, true, nil
	}
	if !s.read || s.open[name] {
		var all []StepDone
		err := s.call(ctx, ctx, func(ctx context.Context) (err error) {
			all, err = s.store.Steps(ctx, j.Lease())
			return err
		})
		if err != nil {
			return nil, false, fmt.Errorf("steps of job %d: %w", j.ID, err)
		}
		i := slices.IndexFunc(all, func(d StepDone) bool { return d.Name == name })
		for _, d := range all {
			if !s.inTx || !s.open[d.Name] { // in the transaction that has put it, it is not committed yet
				s.done = with(s.done, d.Name, d.Value)
			}
		}
		if s.read = j.handling != nil; i >= 0 {
			return all[i].Value, true, nil
		}
	}
	if len(s.done) >= MaxSteps {
		return nil, false, &InvalidError{"step", fmt.Sprintf("%q is one too many: a job has at most %d steps", name, MaxSteps)}
	}
	return nil, false, nil
}

// put writes a step. The first try is made even if ctx has ended meanwhile: the step was done, and the token is the fence.
func (s steps) put(ctx context.Context, j *RawJob, name string, raw json.RawMessage) error {
	first, stop := context.WithTimeout(context.WithoutCancel(ctx), stepWriteWait)
	defer stop()
	return s.call(first, ctx, func(ctx context.Context) error { return s.store.PutStep(ctx, j.Lease(), name, raw) })
}

const (
	// stepWriteWait is how long the first write of a step may take if the handler's context has ended.
	stepWriteWait  = 5 * time.Second
	stepPause      = 20 * time.Millisecond // the pause after the first call that failed; it doubles
	stepPauseLimit = time.Second
)

// call makes a call to the store, first with its own context, and again as long as the database is unavailable and ctx
// lasts. In a transaction it is made once: its connection is gone, or it must be rolled back.
func (s steps) call(first, ctx context.Context, f func(context.Context) error) error {
	err := f(first)
	for pause := stepPause; !s.inTx && errors.Is(err, ErrUnavailable); pause = min(2*pause, stepPauseLimit) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		err = f(ctx)
	}
	return err
}
