package storetest

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A call with invalid input is refused as a whole, before it changes anything. The error
// names the field.
var limitCases = []oneCase{
	{"a job that breaks a rule is refused", badJobs},
	{"a job with a name or metadata that break a rule is refused", badJobTexts},
	{"JSON that is nested too deep is refused", jobsTooDeep},
	{"a name that breaks a rule is refused everywhere", badNames},
	{"a claim or resume that breaks a rule is refused", badClaims},
	{"an outcome that breaks a rule is refused, and its batch", badOutcomes},
	{"a lease that breaks a rule is refused, and its batch", badLeases},
	{"a setting that breaks a rule is refused", badSettings},
	{"an admin call that breaks a rule is refused", badAdmin},
	{"an empty batch does nothing", emptyBatches},
}

// invalid expects an InvalidError for the field.
func invalid(t *test, err error, field string) {
	t.Helper()
	var bad *dibs.InvalidError
	if !errors.Is(err, dibs.ErrInvalid) || !errors.As(err, &bad) {
		t.Fatalf("got error %v, want an InvalidError for %s", err, field)
	}
	if bad.Field != field || bad.Reason == "" {
		t.Fatalf("got error %q for field %s, want field %s", bad, bad.Field, field)
	}
}

// badTexts are names that no queue, kind, group, worker or key may have.
var badTexts = []string{"a\x00b", "\n", "a\tb", "\x1b[31m", "\x7f", "a\xffb", "\xc3\x28", "a\u009b31m", "\u0085", "a\u202eb", "\u2066", "\u200f", "\u061c", "\u2028", strings.Repeat("n", 10_000)}

func badJobs(t *test) {
	now := time.Now()
	cases := []struct {
		field string
		job   dibs.NewJob
	}{
		{"kind", dibs.NewJob{}},
		{"priority", dibs.NewJob{Kind: "k", Priority: new(-1)}},
		{"priority", dibs.NewJob{Kind: "k", Priority: new(dibs.MaxPriority + 1)}},
		{"priority", dibs.NewJob{Kind: "k", Priority: new(65536)}},
		{"delay", dibs.NewJob{Kind: "k", Delay: -1}},
		{"delay", dibs.NewJob{Kind: "k", Delay: dibs.MaxDelay + 1}},
		{"delay", dibs.NewJob{Kind: "k", Delay: 1, RunAt: now}},
		{"run_at", dibs.NewJob{Kind: "k", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"run_at", dibs.NewJob{Kind: "k", RunAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600))}},
		{"max_attempts", dibs.NewJob{Kind: "k", MaxAttempts: -1}},
		{"max_attempts", dibs.NewJob{Kind: "k", MaxAttempts: 1_000_001}},
		{"unique_key", dibs.NewJob{Kind: "k", UniqueKey: strings.Repeat("u", dibs.MaxUniqueKey+1)}},
		{"unique_until", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueUntil: "forever"}},
		{"unique_until", dibs.NewJob{Kind: "k", UniqueUntil: dibs.UntilClaimed}},
		{"unique_for", dibs.NewJob{Kind: "k", UniqueFor: time.Hour}},
		{"unique_for", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueFor: -time.Hour}},
		{"unique_for", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueFor: time.Microsecond}},
		{"unique_for", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueFor: dibs.MaxDelay + 1}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueWindow: "day"}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueFor: time.Hour, UniqueWindow: "day"}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueWindow: "year"}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueWindow: "day in "}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueWindow: "day in Local"}},
		{"unique_window", dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueWindow: "day in ../../etc/passwd"}},
		{"if_held", dibs.NewJob{Kind: "k", IfHeld: dibs.HeldKeep}},
		{"if_held", dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: "merge"}},
		{"run_at", dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldPush, DelayLimit: time.Hour}},
		{"delay_limit", dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldPush, Delay: time.Hour}},
		{"delay_limit", dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldReplace, DelayLimit: time.Hour}},
		{"delay_limit", dibs.NewJob{Kind: "k", UniqueKey: "u", Delay: time.Hour, DelayLimit: time.Hour}},
		{"delay_limit", dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldReplace, Delay: time.Hour, DelayLimit: -1}},
		{"delay_limit", dibs.NewJob{Kind: "k", DelayLimit: time.Hour}},
		{"payload", dibs.NewJob{Kind: "k", Payload: json.RawMessage(`{"a":`)}},
		{"payload", dibs.NewJob{Kind: "k", Payload: json.RawMessage{}}},
		{"payload", dibs.NewJob{Kind: "k", Payload: []byte("{} {}")}},
		{"payload", dibs.NewJob{Kind: "k", Payload: []byte("\"\xff\"")}},
		{"payload", dibs.NewJob{Kind: "k", Payload: []byte("\"\x00\"")}},
		{"payload", dibs.NewJob{Kind: "k", Payload: []byte("NaN")}},
		{"payload", dibs.NewJob{Kind: "k", Payload: math.NaN()}},
		{"payload", dibs.NewJob{Kind: "k", Payload: make(chan int)}},
		{"payload", dibs.NewJob{Kind: "k", Payload: strings.Repeat("p", dibs.MaxPayload)}},
	}
	for _, c := range cases {
		t.refuses(c.field, c.job)
	}
	_, err := t.db.Enqueue(t.ctx, copies(dibs.MaxBatch+1, dibs.NewJob{Kind: "good", Queue: "good"}))
	invalid(t, err, "jobs")
	t.expectEmpty()
}

// refuses expects an error for a field of the second of three jobs.
func (t *test) refuses(field string, job dibs.NewJob) {
	t.Helper()
	good := dibs.NewJob{Kind: "good", Queue: "good"}
	_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{good, job, good})
	invalid(t, err, "jobs[1]."+field)
}

func badJobTexts(t *test) {
	for _, text := range []string{
		`[1]`, `{"a":}`, `{"a":"` + strings.Repeat("m", dibs.MaxMetadata) + `"}`,
		`{"dibs.schedule":"nightly"}`, `{"a":1,"Dibs.schedule":"nightly"}`, // they would pass for jobs of a schedule
	} {
		t.refuses("metadata", dibs.NewJob{Kind: "k", Metadata: json.RawMessage(text)})
	}
	for _, text := range badTexts {
		t.refuses("queue", dibs.NewJob{Queue: text, Kind: "k"})
		t.refuses("kind", dibs.NewJob{Kind: text})
		t.refuses("group", dibs.NewJob{Kind: "k", Group: text})
		t.refuses("unique_key", dibs.NewJob{Kind: "k", UniqueKey: text})
	}
	t.expectEmpty()
}

func jobsTooDeep(t *test) {
	most, over := nested(dibs.MaxDepth), nested(dibs.MaxDepth+1)
	inside := json.RawMessage(`{"a":` + string(most) + "}")
	for _, job := range []dibs.NewJob{{Kind: "payload", Payload: over}, {Kind: "payload", Payload: map[string]any{"a": most}}, {Kind: "metadata", Metadata: inside}} {
		_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{job})
		invalid(t, err, "jobs[0]."+job.Kind)
	}
	t.expectEmpty()
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: most})[0]
	equal(t, "payload", string(t.claimOne(dibs.ClaimRequest{}).Payload), string(most))
	if j := t.get(id); j.Fault != "" || string(j.Payload) != string(most) {
		t.Errorf("the job has the fault %q", j.Fault)
	}
}

// nested is n arrays inside each other.
func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// expectEmpty expects that the database has no jobs.
func (t *test) expectEmpty() {
	t.Helper()
	sameIDs(t, "jobs", ids(t.list(admin.Filter{})), nil)
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", len(queues), 0)
}

func badNames(t *test) {
	for _, text := range append(badTexts, strings.Repeat("n", dibs.MaxName+1)) {
		_, err := t.db.Claim(t.ctx, dibs.ClaimRequest{Queue: text, Worker: "w", N: 1})
		invalid(t, err, "queue")
		_, err = t.db.Claim(t.ctx, dibs.ClaimRequest{Worker: text, N: 1})
		invalid(t, err, "worker")
		_, err = t.db.Claim(t.ctx, dibs.ClaimRequest{Worker: "w", N: 1, Kinds: []string{"k", text}})
		invalid(t, err, "kinds[1]")
		_, err = t.db.Resume(t.ctx, dibs.ClaimRequest{Queue: text, Worker: "w"})
		invalid(t, err, "queue")
		_, err = t.db.Resume(t.ctx, dibs.ClaimRequest{Worker: text})
		invalid(t, err, "worker")
		_, err = t.db.ChangeQueue(t.ctx, text, dibs.QueueChange{}.Apply)
		invalid(t, err, "queue")
		invalid(t, t.db.ChangeGroup(t.ctx, text, "g", dibs.GroupChange{Limit: new(1)}.Apply), "queue")
		invalid(t, t.db.ChangeGroup(t.ctx, "q", text, dibs.GroupChange{Limit: new(1)}.Apply), "group")
		_, err = t.db.List(t.ctx, admin.Filter{Queue: text})
		invalid(t, err, "queue")
		_, err = t.db.List(t.ctx, admin.Filter{Kind: text})
		invalid(t, err, "kind")
		_, err = t.db.List(t.ctx, admin.Filter{Group: text})
		invalid(t, err, "group")
		_, err = t.db.Prune(t.ctx, text, "", 0)
		invalid(t, err, "queue")
	}
	t.expectEmpty()
}

func badClaims(t *test) {
	for field, r := range map[string][]dibs.ClaimRequest{
		"n":        {{Worker: "w"}, {Worker: "w", N: -1}, {Worker: "w", N: dibs.MaxBatch + 1}},
		"worker":   {{N: 1}},
		"ahead":    {{Worker: "w", N: 1, Ahead: -1}, {Worker: "w", N: 1, Ahead: 2}},
		"kinds":    {{Worker: "w", N: 1, Kinds: slices.Repeat([]string{"k"}, 1001)}},
		"kinds[0]": {{Worker: "w", N: 1, Kinds: []string{""}}},
		"lease":    {{Worker: "w", N: 1, Lease: -1}, {Worker: "w", N: 1, Lease: dibs.MinLease - 1}, {Worker: "w", N: 1, Lease: dibs.MaxLease + 1}},
	} {
		for _, r := range r {
			_, err := t.db.Claim(t.ctx, r)
			invalid(t, err, field)
		}
	}
	for field, r := range map[string]dibs.ClaimRequest{"worker": {}, "lease": {Worker: "w", Lease: dibs.MaxLease + 1}} {
		_, err := t.db.Resume(t.ctx, r)
		invalid(t, err, field)
	}
	t.expectEmpty()
}

func badOutcomes(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	good, l := jobs[0].Lease(), jobs[1].Lease()
	change := func(o dibs.Outcome, f func(*dibs.Outcome)) dibs.Outcome { f(&o); return o }
	for _, c := range []struct {
		field   string
		outcome dibs.Outcome
	}{
		{"id", dibs.Outcome{Token: l.Token, Ending: dibs.EndCompleted}},
		{"id", dibs.Outcome{ID: -1, Token: l.Token, Ending: dibs.EndCompleted}},
		{"id", good.Release()}, // a second outcome for the same job
		{"token", dibs.Outcome{ID: l.ID, Ending: dibs.EndCompleted}},
		{"ending", dibs.Outcome{ID: l.ID, Token: l.Token}},
		{"ending", dibs.Outcome{ID: l.ID, Token: l.Token, Ending: "done"}},
		{"delay", dibs.Outcome{ID: l.ID, Token: l.Token, Ending: dibs.EndSnooze}},
		{"delay", l.Snooze(-1)},
		{"delay", l.RetryAfter(dibs.MaxDelay+1, "e")},
		{"delay", change(l.Complete(nil), func(o *dibs.Outcome) { o.Delay = new(time.Second) })},
		{"delay", change(l.Release(), func(o *dibs.Outcome) { o.Delay = new(time.Duration) })},
		{"result", change(l.Retry("e"), func(o *dibs.Outcome) { o.Result = json.RawMessage("1") })},
		{"result", l.Complete(json.RawMessage("{"))},
		{"result", l.Complete(json.RawMessage("\"\xff\""))},
	} {
		t.expectUnchanged(good.ID, func() {
			invalid(t, t.db.Finish(t.ctx, []dibs.Outcome{good.Complete(nil), c.outcome}), "outcomes[1]."+c.field)
		})
	}
	invalid(t, t.db.Finish(t.ctx, make([]dibs.Outcome, dibs.MaxBatch+1)), "outcomes")
	t.complete(jobs...)
}

func badLeases(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	good, l := jobs[0].Lease(), jobs[1].Lease()
	for field, bad := range map[string]dibs.Lease{
		"leases[1].id": good, "leases[1].token": {ID: l.ID},
	} {
		t.expectUnchanged(good.ID, func() {
			_, err := t.db.Extend(t.ctx, []dibs.Lease{good, bad}, 2*time.Hour)
			invalid(t, err, field)
		})
	}
	for _, d := range []time.Duration{0, -1, dibs.MinLease - 1, dibs.MaxLease + 1} {
		t.expectUnchanged(good.ID, func() {
			_, err := t.db.Extend(t.ctx, []dibs.Lease{good}, d)
			invalid(t, err, "lease")
		})
	}
	_, err := t.db.Extend(t.ctx, make([]dibs.Lease, dibs.MaxBatch+1), time.Hour)
	invalid(t, err, "leases")
}

func badSettings(t *test) {
	backoff := func(b dibs.Backoff) dibs.QueueChange { return dibs.QueueChange{Backoff: &b} }
	bad := map[string][]dibs.QueueChange{
		"concurrency":    {{Concurrency: new(-1)}, {Concurrency: new(1_000_001)}},
		"group_limit":    {{GroupLimit: new(0)}, {GroupLimit: new(-1)}, {GroupLimit: new(1_000_001)}},
		"order":          {{Order: new(dibs.Order("random"))}, {Order: new(dibs.Order(""))}},
		"lease":          {{Lease: new(time.Duration)}, {Lease: new(dibs.MinLease - 1)}, {Lease: new(dibs.MaxLease + 1)}},
		"job_timeout":    {{JobTimeout: new(time.Duration(-1))}, {JobTimeout: new(time.Duration(1))}, {JobTimeout: new(dibs.MaxDelay + 1)}},
		"max_attempts":   {{MaxAttempts: new(0)}, {MaxAttempts: new(1_000_001)}},
		"backoff.base":   {backoff(dibs.Backoff{}), backoff(dibs.Backoff{Base: -1, Max: 1, Factor: 2})},
		"backoff.max":    {backoff(dibs.Backoff{Base: time.Second, Factor: 2}), backoff(dibs.Backoff{Base: time.Second, Factor: 2, Max: dibs.MaxDelay + 1})},
		"backoff.factor": {backoff(dibs.Backoff{Base: time.Second, Max: time.Hour}), backoff(dibs.Backoff{Base: time.Second, Max: time.Hour, Factor: math.NaN()})},
		"backoff.jitter": {backoff(dibs.Backoff{Base: time.Second, Max: time.Hour, Factor: 2, Jitter: 1.1}), backoff(dibs.Backoff{Base: time.Second, Max: time.Hour, Factor: 2, Jitter: -0.1})},
		"keep_completed": {{KeepCompleted: new(time.Duration(-1))}, {KeepCompleted: new(dibs.MaxDelay + 1)}},
		"keep_dead":      {{KeepDead: new(time.Duration(-1))}},
		"keep_cancelled": {{KeepCancelled: new(time.Duration(-1))}},
		"payload_limit":  {{PayloadLimit: new(1)}, {PayloadLimit: new(dibs.MaxPayloadLimit + 1)}},
		"rate.n":         {{Rate: &dibs.Rate{N: -1}}},
		"group_rate.n":   {{GroupRate: &dibs.Rate{N: -1}}},
	}
	tried := map[string]bool{}
	for field, changes := range bad {
		for _, c := range changes {
			_, err := t.db.ChangeQueue(t.ctx, "q", c.Apply)
			invalid(t, err, field)
			for setting, value := range reflect.ValueOf(c).Fields() {
				tried[setting.Name] = tried[setting.Name] || !value.IsNil()
			}
		}
	}
	for setting := range reflect.TypeFor[dibs.QueueChange]().Fields() {
		if setting.Type != reflect.TypeFor[*bool]() && !tried[setting.Name] {
			t.Errorf("no value of the setting %s is refused here: add one that is", setting.Name)
		}
	}
	_, err := t.db.ChangeQueue(t.ctx, "", dibs.QueueChange{}.Apply)
	invalid(t, err, "queue")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "g", dibs.GroupChange{Limit: new(-1)}.Apply), "limit")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "g", dibs.GroupChange{Limit: new(1_000_001)}.Apply), "limit")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "", dibs.GroupChange{Limit: new(1)}.Apply), "group")
	t.expectEmpty()
}

func badAdmin(t *test) {
	many := make([]int64, dibs.MaxBatch+1)
	for _, call := range map[string]func(ids []int64) error{
		"Cancel":  func(ids []int64) error { _, _, err := t.db.Cancel(t.ctx, ids); return err },
		"Requeue": func(ids []int64) error { _, err := t.db.Requeue(t.ctx, ids, time.Time{}); return err },
		"Edit":    func(ids []int64) error { _, err := t.db.Edit(t.ctx, ids, admin.Edit{Priority: new(1)}); return err },
	} {
		invalid(t, call([]int64{1, 0}), "ids[1]")
		invalid(t, call([]int64{-5}), "ids[0]")
		invalid(t, call(many), "ids")
	}
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	t.expectUnchanged(id, func() {
		for field, e := range map[string]admin.Edit{
			"edit": {}, "priority": {Priority: new(-1), RunAt: new(time.Now())}, "run_at": {Priority: new(1), RunAt: new(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
		} {
			_, err := t.db.Edit(t.ctx, []int64{id}, e)
			invalid(t, err, field)
		}
		for field, f := range map[string]admin.Filter{"state": {State: "done"}, "limit": {Limit: 1001}} {
			_, err := t.db.List(t.ctx, f)
			invalid(t, err, field)
		}
		_, err := t.db.List(t.ctx, admin.Filter{Limit: -1})
		invalid(t, err, "limit")
		for _, s := range []dibs.State{dibs.Waiting, dibs.Running, dibs.Blocked, "done"} {
			_, err := t.db.Prune(t.ctx, "", s, 0)
			invalid(t, err, "state")
		}
		_, err = t.db.Prune(t.ctx, "", "", -1)
		invalid(t, err, "older_than")
	})
}

func emptyBatches(t *test) {
	done, err := t.db.Enqueue(t.ctx, nil)
	t.must(err)
	equal(t, "results", len(done), 0)
	t.finish()
	t.extendAll(time.Minute)
	for call, n := range map[string]int{
		"cancelled": len(slices.Concat(t.cancel())), "requeued": len(t.requeue()), "edited": len(t.edit(admin.Edit{Priority: new(1)})),
	} {
		equal(t, call, n, 0)
	}
	tx := t.beginTx()
	t.enqueueOn(tx)
	t.must(tx.Finish(t.ctx, nil))
	t.must(tx.Commit())
	equal(t, "swept", t.sweep(), dibs.Swept{})
	t.expectEmpty()
}
