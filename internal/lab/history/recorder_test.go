package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/sqlite"
)

// open makes a SQLite database and a recorder in a new directory.
func open(t *testing.T, client string) (admin.Database, *history.Recorder, string) {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "jobs.db"), sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, db.Close()) })
	r, err := history.OpenIn(dir, client)
	if err != nil {
		t.Fatal(err)
	}
	return db, r, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func newJob(key string) dibs.NewJob {
	return dibs.NewJob{Kind: "k", Payload: map[string]string{"key": key}}
}

// verbs lists the verbs and fates of calls, in order.
func verbs(calls []*history.Call) []string {
	var list []string
	for _, c := range calls {
		list = append(list, fmt.Sprintf("%s %s", c.Verb, c.Fate))
	}
	return list
}

func TestEveryVerbIsRecordedWithItsAnswer(t *testing.T) {
	t.Parallel()
	plain, r, dir := open(t, "client")
	db := history.Wrap(plain, r)
	ctx := context.Background()
	five := 5
	grouped := newJob("b")
	grouped.Group, grouped.UniqueKey, grouped.Priority, grouped.MaxAttempts = "g", "u", &five, 3
	done := value[[]dibs.Enqueued](t)(db.Enqueue(ctx, []dibs.NewJob{newJob("a"), grouped, grouped}))
	jobs := value[[]*dibs.RawJob](t)(db.Claim(ctx, dibs.ClaimRequest{Worker: "w", N: 10, Lease: time.Minute}))
	lost := dibs.Lease{ID: jobs[0].ID + 100, Token: dibs.Token{1}}
	value[dibs.Extended](t)(db.Extend(ctx, []dibs.Lease{jobs[0].Lease(), lost}, time.Minute))
	if _, cancelled, err := db.Cancel(ctx, []int64{jobs[0].ID}); err != nil || len(cancelled) != 1 {
		t.Fatal(cancelled, err)
	}
	jobs = value[[]*dibs.RawJob](t)(db.Resume(ctx, dibs.ClaimRequest{Worker: "w", Lease: time.Minute}))
	if err := db.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil), lost.Release()}); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatal(err)
	}
	value[[]int64](t)(db.Requeue(ctx, []int64{jobs[0].ID}, time.Time{}))
	value[[]int64](t)(db.Edit(ctx, []int64{jobs[0].ID}, admin.Edit{Priority: &five}))
	value[dibs.Queue](t)(db.ChangeQueue(ctx, "default", dibs.QueueChange{Concurrency: &five}.Apply))
	must(t, db.ChangeGroup(ctx, "default", "g", dibs.GroupChange{Limit: new(2)}.Apply))
	value[dibs.Swept](t)(db.Sweep(ctx))
	value[int](t)(db.Prune(ctx, "default", "", time.Hour))
	must(t, r.Fault("client", "kill", func() error { return nil }))
	must(t, r.Close())

	calls, err := history.Read(dir)
	must(t, err)
	want := []string{
		"enqueue done", "claim done", "extend done", "cancel done", "resume done", "finish done", "requeue done",
		"edit done", "set_queue done", "set_group done", "sweep done", "prune done", "fault done",
	}
	if got := verbs(calls); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i, c := range calls {
		if c.Client != "client" || c.Number != i+1 || c.Begin.IsZero() || !c.End.After(c.Begin) {
			t.Errorf("call %d: client %q, number %d, from %v to %v", i, c.Client, c.Number, c.Begin, c.End)
		}
	}
	wantNew := history.New{
		Key: "b", Sum: history.Sum([]byte(`{"key":"b"}`)), ID: done[1].ID, Queue: "default", Group: "g", UniqueKey: "u", UniqueUntil: dibs.UntilFinished,
		Priority: 5, MaxAttempts: 3,
	}
	if got := calls[0].New[1]; !reflect.DeepEqual(got, wantNew) {
		t.Errorf("the second new job is %+v, want %+v", got, wantNew)
	}
	if got := calls[0].New[2]; !got.Existing || got.ID != done[1].ID {
		t.Errorf("the third new job is %+v, want the second's id and Existing", got)
	}
	j := jobs[0]
	wantJob := history.Job{
		ID: j.ID, Key: history.Key(j.Payload), Sum: history.Sum(j.Payload), Token: j.Token, Attempt: 2, MaxAttempts: j.MaxAttempts, Priority: j.Priority,
		Group: j.Group, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, LeaseUntil: j.LeaseUntil,
	}
	if got := calls[4].Jobs; !reflect.DeepEqual(got[0], wantJob) {
		t.Errorf("the resumed job is %+v, want %+v", got[0], wantJob)
	}
	if got := calls[5].Refused; !reflect.DeepEqual(got, []int64{lost.ID}) {
		t.Errorf("the refused jobs are %v, want %d", got, lost.ID)
	}
}

func TestFlowsAndStepsAreRecorded(t *testing.T) {
	t.Parallel()
	plain, r, dir := open(t, "client")
	db := history.Wrap(plain, r)
	ctx := t.Context()
	first, next := newJob("a"), newJob("b")
	first.Ref, next.After = "first", []dibs.Dep{{Ref: "first", On: dibs.NeedEnded}}
	value[[]dibs.Enqueued](t)(db.Enqueue(ctx, []dibs.NewJob{first, next}))
	jobs := value[[]*dibs.RawJob](t)(db.Claim(ctx, dibs.ClaimRequest{Worker: "w", N: 10, Lease: time.Minute}))
	lease := jobs[0].Lease()
	must(t, db.(dibs.StepStore).PutStep(ctx, lease, "charge", []byte("1")))
	must(t, db.InTx(ctx, func(tx dibs.Tx) error { return tx.(dibs.StepStore).PutStep(ctx, lease, "ship", []byte("2")) }))
	value[[]dibs.StepDone](t)(db.(dibs.StepStore).Steps(ctx, lease))
	done := lease.Complete(nil)
	done.Add = []dibs.NewJob{newJob("c")}
	must(t, db.Finish(ctx, []dibs.Outcome{done}))
	if err := db.(dibs.StepStore).PutStep(ctx, lease, "late", []byte("3")); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatal(err)
	}
	must(t, r.Close())

	calls := value[[]*history.Call](t)(history.Read(dir))
	want := []string{"enqueue done", "claim done", "put_step done", "put_step done", "commit done", "steps done", "finish done", "put_step done"}
	if got := verbs(calls); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	charge, ship := history.Step{Name: "charge", Sum: history.Sum([]byte("1"))}, history.Step{Name: "ship", Sum: history.Sum([]byte("2"))}
	for i, c := range []struct{ got, want any }{
		{calls[0].New[1].After, next.After},
		{calls[0].New[0].Ref, "first"},
		{calls[2].Steps, []history.Step{charge}},
		{calls[2].Leases, []dibs.Lease{lease}},
		{calls[3].Tx, calls[4].Tx},
		{calls[5].Steps, []history.Step{charge, ship}},
		{[]any{calls[6].New[0].Key, calls[6].New[0].By}, []any{"c", lease.ID}},
		{calls[7].Refused, []int64{lease.ID}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%d: got %+v, want %+v", i, c.got, c.want)
		}
	}
}

// locked is a store in which another transaction locks job 1, and the lease of job 2 is lost.
type locked struct{ admin.Database }

func (locked) Finish(context.Context, []dibs.Outcome) error {
	return &dibs.FinishError{Unwritten: []int64{1}, Lost: []int64{2}, Err: dibs.ErrUnavailable}
}

func TestOutcomesThatWereNotWrittenAreLeftOut(t *testing.T) {
	t.Parallel()
	plain, r, dir := open(t, "client")
	lease := func(id int64) dibs.Lease { return dibs.Lease{ID: id, Token: dibs.Token{1}} }
	outcomes := []dibs.Outcome{lease(1).Release(), lease(2).Release(), lease(3).Release()}
	if err := history.Wrap(locked{plain}, r).Finish(t.Context(), outcomes); !errors.Is(err, dibs.ErrUnavailable) {
		t.Fatal(err)
	}
	must(t, r.Close())
	calls, err := history.Read(dir)
	must(t, err)
	if c := calls[0]; c.Fate != history.Done || !reflect.DeepEqual(c.Outcomes, outcomes[1:]) || !reflect.DeepEqual(c.Refused, []int64{2}) {
		t.Errorf("the call is %s, with the outcomes %+v and the refused jobs %v", c.Fate, c.Outcomes, c.Refused)
	}
}

func TestTransactionsAreRecordedWithTheirEnd(t *testing.T) {
	t.Parallel()
	plain, r, dir := open(t, "client")
	db := history.Wrap(plain, r)
	enqueue := func(tx dibs.Tx) error {
		_, err := tx.Enqueue(t.Context(), []dibs.NewJob{newJob("a")})
		return err
	}
	must(t, db.InTx(t.Context(), enqueue))
	mistake := errors.New("mistake")
	if err := db.InTx(t.Context(), func(tx dibs.Tx) error {
		must(t, enqueue(tx))
		return mistake
	}); !errors.Is(err, mistake) {
		t.Fatal(err)
	}
	if err := r.Commit("own", func() error { return mistake }); !errors.Is(err, mistake) {
		t.Fatal(err)
	}
	must(t, r.Close())
	calls, err := history.Read(dir)
	must(t, err)
	want := []string{"enqueue done", "commit done", "enqueue done", "rollback done", "commit unknown"}
	if got := verbs(calls); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if calls[0].Tx == "" || calls[0].Tx != calls[1].Tx || calls[2].Tx != calls[3].Tx || calls[0].Tx == calls[2].Tx || calls[4].Tx != "own" {
		t.Error("the calls of a transaction do not share its name")
	}
}

func TestACallThatWasCutOffIsUnknown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := history.OpenIn(dir, "client")
	must(t, err)
	must(t, r.Begin(&history.Call{Verb: history.Sweep}))
	c := &history.Call{Verb: history.Claim, Queue: "q"}
	must(t, r.Begin(c))
	var growing history.Reader
	if calls, err := growing.Read(dir); err != nil || !reflect.DeepEqual(verbs(calls), []string{"sweep unknown", "claim unknown"}) {
		t.Fatalf("before the end: %q, error %v", verbs(calls), err)
	}
	c.Fate = history.Done
	r.End(c)
	must(t, r.Close())
	if calls, err := growing.Read(dir); err != nil || !reflect.DeepEqual(verbs(calls), []string{"sweep unknown", "claim done"}) {
		t.Fatalf("after the end: %q, error %v", verbs(calls), err)
	}
	path := filepath.Join(dir, "client"+history.Suffix)
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, text[:len(text)-5], 0o600))
	calls, err := history.Read(path)
	must(t, err)
	if got := verbs(calls); !reflect.DeepEqual(got, []string{"sweep unknown", "claim unknown"}) || !calls[1].End.IsZero() {
		t.Fatalf("got %q, the claim ended at %v", got, calls[1].End)
	}
}

func TestFates(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]history.Fate{
		nil:                                      history.Done,
		&dibs.FinishError{Lost: []int64{1}}:      history.Done,
		&dibs.FinishError{Unwritten: []int64{1}}: history.Done,
		&dibs.InvalidError{}:                     history.Nothing,
		dibs.ErrClosed:                           history.Nothing,
		dibs.ErrUnavailable:                      history.Unknown,
		context.Canceled:                         history.Unknown,
		errors.New("anything else"):              history.Unknown,
	} {
		if got := history.FateOf(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func TestKeyOfAPayload(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{`{"key":"a","n":1}`: "a", `{}`: "", `null`: "", `[1]`: ""} {
		if got := history.Key(json.RawMessage(payload)); got != want {
			t.Errorf("the key of %s is %q, want %q", payload, got, want)
		}
	}
}
