package dibs_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func TestOptionsSetTheFieldsOfAJob(t *testing.T) {
	t.Parallel()
	confirm := dibs.NewKind[order]("confirm", dibs.KindOptions{Queue: "mail", MaxAttempts: 4})
	attempts := func(j *dibs.NewJob) { j.MaxAttempts = 9 }
	got := confirm.New(order{7}, dibs.InGroup("acme"), dibs.UniqueKey("order-7"), dibs.Priority(3), nil, dibs.Delay(time.Hour), attempts)
	want := dibs.NewJob{
		Queue: "mail", Kind: "confirm", Payload: order{7}, MaxAttempts: 9,
		Group: "acme", UniqueKey: "order-7", Priority: new(3), Delay: time.Hour,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a job with options is %+v, want %+v", got, want)
	}
}

// A key by the payload is the same for jobs that do the same, and for no others.
func TestAJobIsUniqueByItsPayload(t *testing.T) {
	t.Parallel()
	key := func(kind string, payload any) string {
		k := dibs.NewKind[any](kind, dibs.KindOptions{})
		return k.New(payload, dibs.UniqueByPayload).UniqueKey
	}
	type swapped struct {
		B int `json:"b"`
		A any `json:"a"`
	}
	want := key("k", map[string]any{"a": []int{1, 2}, "b": 3})
	for name, same := range map[string]any{
		"a struct with its fields in another order": swapped{3, []int{1, 2}},
		"JSON with blanks":                          json.RawMessage(`{ "b": 3, "a": [1, 2] }`),
		"JSON as bytes":                             []byte(`{"b":3,"a":[1,2]}`),
	} {
		if got := key("k", same); got != want {
			t.Errorf("%s has the key %q, want %q", name, got, want)
		}
	}
	seen := map[string]any{want: "the first"}
	for _, other := range []any{nil, 1, "1", []int{1}, []int{2, 1}, map[string]int{"b": 3}, json.Number("9007199254740993"), json.Number("9007199254740992")} {
		got := key("k", other)
		if seen[got] != nil {
			t.Errorf("%v has the key of %v", other, seen[got])
		}
		seen[got] = other
	}
	if got := key("other", map[string]any{"a": []int{1, 2}, "b": 3}); got == want {
		t.Error("two kinds have the same key for a payload")
	}
	if got := key(strings.Repeat("k", dibs.MaxName), strings.Repeat("p", 1<<20)); len(got) > dibs.MaxUniqueKey {
		t.Errorf("a key has %d bytes", len(got))
	}
}

func TestBadOptionsAreRefusedByTheField(t *testing.T) {
	t.Parallel()
	store, end := temporary(t.Context())
	defer end()
	long := strings.Repeat("x", 1000)
	bad := dibs.NewKind[any]("k", dibs.KindOptions{})
	for field, o := range map[string]func(*dibs.NewJob){
		"jobs[0].group": dibs.InGroup(long), "jobs[0].unique_key": dibs.UniqueKey(long), "jobs[0].priority": dibs.Priority(-1), "jobs[0].delay": dibs.Delay(-1),
		"jobs[0].ref": dibs.Ref(long), "jobs[0].after[0].ref": dibs.After(long), "jobs[0].after[0]": dibs.AfterEnd(int64(-1)),
		"jobs[0].after[1]": func(j *dibs.NewJob) { dibs.AfterEnd(int64(0))(j); dibs.AfterFailure("")(j); j.After[0].Ref = "a" },
	} {
		var invalid *dibs.InvalidError
		if _, err := bad.Enqueue(t.Context(), store, 1, o); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("an option for %s gave %v", field, err)
		}
	}
	for _, payload := range []any{make(chan int), json.RawMessage("{"), []byte(nil)} {
		var invalid *dibs.InvalidError
		if _, err := bad.Enqueue(t.Context(), store, payload, dibs.UniqueByPayload); !errors.As(err, &invalid) || invalid.Field != "jobs[0].payload" {
			t.Errorf("a job that is unique by the payload %T gave %v", payload, err)
		}
	}
	for range 2 { // a job that is there already has nothing of the second
		done, err := bad.Enqueue(t.Context(), store, map[string]int{"a": 1}, dibs.UniqueByPayload, dibs.InGroup("g"))
		if err != nil || done.ID != 1 {
			t.Errorf("enqueued %+v, %v", done, err)
		}
	}
}
