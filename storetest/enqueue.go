package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var enqueueCases = []oneCase{
	{"ids come in order and grow", idsGrow},
	{"a bare job has the documented defaults", bareJob},
	{"every field is kept", everyField},
	{"a payload comes back byte for byte", payloadBytes},
	{"a value is encoded as JSON", payloadValue},
	{"a payload may have exactly the limit, not one byte more", payloadLimit},
	{"a bad job in the middle leaves nothing of its batch", badJobInBatch},
	{"names of any script and of SQL are kept", strangeNames},
	{"a run_at in the past means now", pastRunAt},
	{"a delay counts from the database's now", delayed},
	{"the farthest run_at and delay are kept", farFuture},
	{"other stores see the jobs at once", enqueuedElsewhere},
	{"concurrent batches stay whole and do not mix", concurrentBatches},
	{"each job of a batch has its own id, unique ones among them", idsOfABatch},
	{"a bad batch spoils nobody else's", badBatchAlone},
}

func idsGrow(t *test) {
	var all []int64
	for range 3 {
		all = append(all, t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)...)
	}
	all = append(all, t.enqueueOn(t.Another(t), copies(5, dibs.NewJob{Kind: "k"})...)...)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			t.Fatalf("ids do not grow: %v", all)
		}
	}
}

func bareJob(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	j := t.get(id)
	if j.CreatedAt.IsZero() {
		t.Fatal("created_at is missing")
	}
	near(t, "run_at after created_at", j.RunAt.Sub(j.CreatedAt), 0)
	want := &dibs.RawJob{
		ID: id, Queue: dibs.DefaultQueue, Kind: "k", State: dibs.Waiting, Payload: json.RawMessage("null"),
		Priority: dibs.DefaultPriority, RunAt: j.RunAt, MaxAttempts: 25, CreatedAt: j.CreatedAt,
	}
	sameJob(t, j, want)
}

// Requirement 1: priority, available date, attempts, payload. Requirement 3: a group.
func everyField(t *test) {
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	enqueued := dibs.NewJob{
		Queue: "q", Kind: "k", Payload: json.RawMessage(`{"a":1}`), Metadata: json.RawMessage(`{"trace":"x","n":[1,2]}`),
		Priority: new(7), RunAt: at, MaxAttempts: 3, Group: "g", UniqueKey: "u", UniqueUntil: dibs.UntilClaimed,
	}
	elsewhere := []string{"Delay", "UniqueFor", "UniqueWindow", "IfHeld", "DelayLimit", "Ref", "After"} // what the chapters of keys, times and flows try
	for field, value := range reflect.ValueOf(enqueued).Fields() {
		if value.IsZero() && !slices.Contains(elsewhere, field.Name) {
			t.Errorf("NewJob.%s is to have a value here, which shows whether it is stored", field.Name)
		}
	}
	j := t.get(t.enqueue(enqueued)[0])
	if !jsonEqual(t, j.Metadata, enqueued.Metadata) {
		t.Fatalf("metadata: got %s, want %s", j.Metadata, enqueued.Metadata)
	}
	if !j.RunAt.Equal(at) {
		t.Fatalf("run_at: got %v, want %v", j.RunAt, at)
	}
	sameJob(t, j, &dibs.RawJob{
		ID: j.ID, Queue: "q", Kind: "k", State: dibs.Waiting, Payload: json.RawMessage(`{"a":1}`), Metadata: j.Metadata,
		Priority: 7, RunAt: j.RunAt, MaxAttempts: 3, Group: "g", GroupLimit: 1,
		UniqueKey: "u", UniqueUntil: dibs.UntilClaimed, CreatedAt: j.CreatedAt,
	})
}

func jsonEqual(t *test, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	t.must(json.Unmarshal(a, &x))
	t.must(json.Unmarshal(b, &y))
	return reflect.DeepEqual(x, y)
}

// Requirement 1: the payload is the caller's.
func payloadBytes(t *test) {
	payloads := []string{
		`null`, `true`, `0`, `""`, `[]`, `{}`,
		" { \"b\" : 1 ,\r\n\t\"a\":2 }\n", // spaces, and unsorted keys
		`{"a":1,"a":2}`,                   // a key twice
		`"\u0000"`, `"\ud800"`, `"\u00e9é\/"`, `"<&>"`, `"'';--$1?%"`,
		`1e400`, `-0`, `0.10000000000000000000000000001`, `12345678901234567890123`,
		`"日本語 🙂"`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500),
	}
	var batch []dibs.NewJob
	for _, p := range payloads {
		batch = append(batch, dibs.NewJob{Kind: "k", Payload: json.RawMessage(p)}, dibs.NewJob{Kind: "k", Payload: []byte(p)})
	}
	all := t.enqueue(batch...)
	listed := t.list(admin.Filter{})
	slices.Reverse(listed)
	claimed := t.claim(dibs.ClaimRequest{N: len(batch)})
	sameIDs(t, "claimed", ids(claimed), all)
	sameIDs(t, "listed", ids(listed), all)
	for i, id := range all {
		want := payloads[i/2]
		for call, got := range map[string]json.RawMessage{"Claim": claimed[i].Payload, "List": listed[i].Payload, "Get": t.get(id).Payload} {
			if string(got) != want {
				t.Fatalf("%s gave payload %q, want %q", call, got, want)
			}
		}
	}
	t.finish(outcomes(claimed, completed)...)
	for i, id := range all {
		equal(t, "payload of the completed job", string(t.get(id).Payload), payloads[i/2])
	}
}

func payloadValue(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: struct {
		To string `json:"to"`
		N  int
	}{"a@b", 2}})[0]
	equal(t, "payload", string(t.get(id).Payload), `{"to":"a@b","N":2}`)
}

func payloadLimit(t *test) {
	largest := []byte(`"` + strings.Repeat("x", dibs.MaxPayload-2) + `"`)
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: largest})[0]
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "claimed job", j.ID, id)
	if !bytes.Equal(j.Payload, largest) {
		t.Fatalf("a payload of %d bytes came back with %d bytes, or changed", len(largest), len(j.Payload))
	}
	_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{{Kind: "k", Payload: append(largest, ' ')}})
	invalid(t, err, "jobs[0].payload")
}

func idsOfABatch(t *test) {
	var batch []dibs.NewJob
	for i := range 200 { // the last ones differ only in their payloads
		j := dibs.NewJob{Kind: "k", Payload: i}
		if i%19 == 7 && i < 75 {
			j.UniqueKey = fmt.Sprint(i)
		}
		batch = append(batch, j)
	}
	batch[70].UniqueKey = batch[7].UniqueKey
	done, err := t.db.Enqueue(t.ctx, batch)
	t.must(err)
	for i, e := range done {
		if i != 70 {
			equal(t, "payload", string(t.get(e.ID).Payload), fmt.Sprint(i))
		}
	}
	equal(t, "the one whose key is held", done[70], dibs.Enqueued{ID: done[7].ID, Existing: true})
}

func badJobInBatch(t *test) {
	batch := copies(100, dibs.NewJob{Kind: "k"})
	batch[50].Payload = json.RawMessage(`{"a":`)
	_, err := t.db.Enqueue(t.ctx, batch)
	invalid(t, err, "jobs[50].payload")
	sameIDs(t, "jobs after the refused batch", ids(t.list(admin.Filter{})), nil)
	sameIDs(t, "claimed after the refused batch", ids(t.claim(dibs.ClaimRequest{N: 100})), nil)
}

func strangeNames(t *test) {
	names := []string{
		"'; drop table job; --", `"q"`, "a b", "%_\\", "$1 ?1 :x @y", "été 日本 🙂", "null", "NULL", "0", "{a,b}", "(1,2)", "a\u00a0b", "\u200b",
		strings.Repeat("n", dibs.MaxName), strings.Repeat("é", dibs.MaxName/2),
	}
	for _, n := range names {
		enqueued := dibs.NewJob{Queue: n, Kind: n, Group: n, UniqueKey: n, Payload: n}
		id := t.enqueue(enqueued)[0]
		j := t.claimOne(dibs.ClaimRequest{Queue: n, Worker: n, Kinds: []string{n}})
		equal(t, "names", []any{j.ID, j.Queue, j.Kind, j.Group, j.UniqueKey, j.Worker}, []any{id, n, n, n, n, n})
		sameIDs(t, "listed", ids(t.list(admin.Filter{Queue: n, Kind: n, Group: n})), []int64{id})
		t.finish(j.Lease().Retry(n))
		equal(t, "error text", t.get(id).Errors[0].Error, n)
	}
	key := strings.Repeat("k", dibs.MaxUniqueKey)
	holder := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: key})[0]
	equal(t, "unique key", t.get(holder).UniqueKey, key)
	sameIDs(t, "the holder of a long key", ids(t.list(admin.Filter{Queue: "q", UniqueKey: key})), []int64{holder})
}

// A job with a run_at in the past must not overtake older jobs.
func pastRunAt(t *test) {
	first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	second := t.enqueue(dibs.NewJob{Kind: "k", RunAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})[0]
	third := t.enqueue(dibs.NewJob{Kind: "k", RunAt: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)})[0]
	if j := t.get(second); j.RunAt.Before(t.get(first).RunAt) {
		t.Fatalf("run_at is %v, before the job was created (%v)", j.RunAt, j.CreatedAt)
	}
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 3})), []int64{first, second, third})
}

func delayed(t *test) {
	const delay = 300 * time.Millisecond
	id := t.enqueue(dibs.NewJob{Kind: "k", Delay: delay})[0]
	j := t.get(id)
	near(t, "run_at after created_at", j.RunAt.Sub(j.CreatedAt), delay)
	equal(t, "state", j.State, dibs.Waiting)
	got := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	if got.ClaimedAt.Before(j.RunAt) {
		t.Fatalf("claimed at %v, before its run_at %v", got.ClaimedAt, j.RunAt)
	}
	if late := got.ClaimedAt.Sub(j.RunAt); late > promptly {
		t.Fatalf("claimed %v after its run_at although a worker claimed all the time", late)
	}
}

func farFuture(t *test) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	all := t.enqueue(dibs.NewJob{Kind: "k", RunAt: last}, dibs.NewJob{Kind: "k", Delay: dibs.MaxDelay})
	if got := t.get(all[0]).RunAt; !got.Equal(last) {
		t.Fatalf("run_at: got %v, want %v", got, last)
	}
	j := t.get(all[1])
	near(t, "run_at after created_at", j.RunAt.Sub(j.CreatedAt), dibs.MaxDelay)
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 2})), nil)
}

// Requirement 4: any number of processes.
func enqueuedElsewhere(t *test) {
	other := t.Another(t)
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	j, err := other.Get(t.ctx, id)
	t.must(err)
	sameJob(t, j, t.get(id))
	sameIDs(t, "claimed by the other store", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), []int64{id})
}

// A store may merge concurrent calls into one statement. Each caller must still get its own
// ids, in the order of its jobs.
func concurrentBatches(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const callers, size = 16, 25
	got := make([][]dibs.Enqueued, callers)
	t.runAtOnce(callers, func(i int) (err error) {
		var batch []dibs.NewJob
		for k := range size {
			batch = append(batch, dibs.NewJob{Kind: "k", Payload: fmt.Sprintf("%d/%d", i, k)})
		}
		got[i], err = stores[i%2].Enqueue(t.ctx, batch)
		return err
	})
	seen := map[int64]bool{}
	for i, batch := range got {
		equal(t, "results", len(batch), size)
		for k, e := range batch {
			if seen[e.ID] || k > 0 && e.ID <= batch[k-1].ID {
				t.Fatalf("caller %d got ids that were given before or do not grow: %v", i, batch)
			}
			seen[e.ID] = true
			equal(t, "payload", string(t.get(e.ID).Payload), fmt.Sprintf(`"%d/%d"`, i, k))
		}
	}
	equal(t, "jobs", len(t.list(admin.Filter{Limit: 1000})), callers*size)
}

func badBatchAlone(t *test) {
	const callers = 16
	t.runAtOnce(callers, func(i int) error {
		batch := copies(3, dibs.NewJob{Kind: "k"})
		if i%4 == 0 {
			batch[1].Kind = ""
		}
		_, err := t.db.Enqueue(t.ctx, batch)
		if bad := errors.Is(err, dibs.ErrInvalid); bad != (i%4 == 0) {
			return fmt.Errorf("caller %d got error %v", i, err)
		}
		return nil
	})
	equal(t, "jobs", len(t.list(admin.Filter{})), callers*3/4*3)
}
