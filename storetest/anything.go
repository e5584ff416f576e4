package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// anything makes arguments for calls by their types: good ones, and what callers give by
// mistake. It may be used by one goroutine at a time.
type anything struct {
	*rand.Rand
	live  context.Context
	ended context.Context
	held  *heldLeases
	inTx  func(dibs.Tx) // what a function does that is given to InTx
}

// heldLeases are of jobs that were claimed at some time, and may have ended since.
type heldLeases struct {
	mu  sync.Mutex
	all []dibs.Lease
}

func (h *heldLeases) add(jobs []*dibs.RawJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range jobs[:min(len(jobs), 100)] {
		h.all = append(h.all, j.Lease())
	}
	h.all = h.all[max(0, len(h.all)-1000):]
}

func (h *heldLeases) any(r *rand.Rand) dibs.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return dibs.Lease{ID: 1, Token: dibs.Token{1}}
	}
	return h.all[r.IntN(len(h.all))]
}

var (
	errMeant = errors.New("an error of the caller's")
	// panicMeant is what the callers' functions panic with.
	panicMeant = "a panic of the caller's"

	contextType = reflect.TypeFor[context.Context]()

	someTexts = []string{"", "q", "p", "g", "k", dibs.DefaultQueue, "completed", "fifo", "a\x00b", "\xff", "ü\u202e", "'; drop table dibs_job; --", strings.Repeat("x", 300), strings.Repeat("y", 2000)}
	someInts  = []int64{0, 1, 2, 3, 7, 100, 1000, -1, math.MaxInt16 + 1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	someTimes = []time.Time{{}, time.Unix(0, 0), time.Now(), time.Now().Add(time.Hour), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64, 0)}
	someJSON  = []json.RawMessage{nil, {}, []byte("null"), []byte(`{"a":1}`), []byte("{"), []byte("\xff"), []byte(`"\u0000"`), []byte(`"` + strings.Repeat("x", 20_000) + `"`)}
	someAny   = []any{nil, 1, "text", []byte("null"), []byte{}, json.RawMessage("{"), math.NaN(), make(chan int), func() {}, map[string]any{"a": []int{1}}}
	durations = []time.Duration{0, 1, dibs.MinLease, time.Second, time.Minute, dibs.MaxLease, dibs.MaxLease + 1, dibs.MaxDelay, math.MaxInt64, math.MinInt64, -1}
)

func pick[T any](a *anything, all []T) reflect.Value { return reflect.ValueOf(all[a.IntN(len(all))]) }

// value is something of a type.
func (a *anything) value(t reflect.Type) reflect.Value {
	switch t {
	case contextType:
		v := reflect.New(t).Elem()
		if n := a.IntN(10); n > 0 { // else it is nil
			v.Set(reflect.ValueOf(map[bool]context.Context{true: a.ended, false: a.live}[n == 1]))
		}
		return v
	case reflect.TypeFor[time.Time]():
		return pick(a, someTimes)
	case reflect.TypeFor[time.Duration]():
		return pick(a, durations)
	case reflect.TypeFor[json.RawMessage]():
		return pick(a, someJSON)
	case reflect.TypeFor[dibs.Lease]():
		if a.IntN(4) > 0 {
			return reflect.ValueOf(a.held.any(a.Rand))
		}
	case reflect.TypeFor[dibs.Outcome]():
		return reflect.ValueOf(a.outcome())
	case reflect.TypeFor[func(dibs.Tx) error]():
		return reflect.ValueOf(a.function())
	}
	return a.kind(t)
}

func (a *anything) kind(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString(someTexts[a.IntN(len(someTexts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(someInts[a.IntN(len(someInts))])
	case reflect.Bool:
		v.SetBool(a.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, 2.5, math.NaN(), math.Inf(1), math.MaxFloat64}[a.IntN(7)])
	case reflect.Slice:
		v.Set(a.slice(t))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(a.Uint64() & 1)
		}
	case reflect.Struct: // most fields are as callers leave them
		for i := range t.NumField() {
			if a.IntN(4) == 0 || t.Field(i).Type.Kind() == reflect.String && a.IntN(2) == 0 {
				v.Field(i).Set(a.value(t.Field(i).Type))
			}
		}
	case reflect.Pointer:
		// Of a struct of another package, such as sql.Tx, callers have what that made, or nil.
		if of := t.Elem(); (of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[dibs.Backoff]()) && a.IntN(4) > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(a.value(t.Elem()))
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			if x := someAny[a.IntN(len(someAny))]; x != nil {
				v.Set(reflect.ValueOf(x))
			}
		}
	}
	return v // other kinds stay zero
}

// slice is of a few elements, or of more than a call may have.
func (a *anything) slice(t reflect.Type) reflect.Value {
	switch a.IntN(12) {
	case 0:
		return reflect.Zero(t)
	case 1:
		return reflect.MakeSlice(t, dibs.MaxBatch+1, dibs.MaxBatch+1)
	}
	v := reflect.MakeSlice(t, a.IntN(4), 4)
	for i := range v.Len() {
		v.Index(i).Set(a.value(t.Elem()))
	}
	return v
}

// outcome is most often one that a holder could give.
func (a *anything) outcome() dibs.Outcome {
	l := a.held.any(a.Rand)
	switch a.IntN(8) {
	case 0, 1:
		return l.Complete(nil)
	case 2:
		return l.Retry(someTexts[a.IntN(len(someTexts))])
	case 3:
		return l.Snooze(durations[a.IntN(len(durations))])
	case 4:
		return l.Release()
	case 5:
		return l.Die("x")
	}
	return a.kind(reflect.TypeFor[dibs.Outcome]()).Interface().(dibs.Outcome)
}

// function is what a caller gives to InTx.
func (a *anything) function() func(dibs.Tx) error {
	n := a.IntN(6)
	if n == 0 {
		return nil
	}
	return func(tx dibs.Tx) error {
		a.inTx(tx)
		switch n {
		case 1:
			panic(panicMeant)
		case 2:
			runtime.Goexit()
		case 3:
			return errMeant
		}
		return nil
	}
}
