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

// anything makes arguments of any type for calls: valid ones, and mistakes of callers. One
// goroutine at a time may use it.
type anything struct {
	*rand.Rand
	live  context.Context
	ended context.Context
	held  *heldLeases
	useTx func(dibs.Tx) // what the functions given to InTx do with the transaction
}

// heldLeases holds leases of jobs that were claimed; they may have ended.
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

func (h *heldLeases) pick(r *rand.Rand) dibs.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return dibs.Lease{ID: 1, Token: dibs.Token{1}}
	}
	return h.all[r.IntN(len(h.all))]
}

var (
	errExpected = errors.New("an error of the caller's")
	// panicExpected is the value with which the callers' functions panic.
	panicExpected = "a panic of the caller's"

	contextType = reflect.TypeFor[context.Context]()

	someTexts = []string{"", "q", "p", "g", "k", dibs.DefaultQueue, "completed", "fifo", "a\x00b", "\xff", "ü\u202e", "'; drop table dibs_job; --", strings.Repeat("x", 300), strings.Repeat("y", 2000)}
	someInts  = []int64{0, 1, 2, 3, 7, 100, 1000, -1, math.MaxInt16 + 1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	someTimes = []time.Time{{}, time.Unix(0, 0), time.Now(), time.Now().Add(time.Hour), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64, 0)}
	someJSON  = []json.RawMessage{nil, {}, []byte("null"), []byte(`{"a":1}`), []byte("{"), []byte("\xff"), []byte(`"\u0000"`), []byte(`"` + strings.Repeat("x", 20_000) + `"`)}
	someAny   = []any{nil, 1, "text", []byte("null"), []byte{}, json.RawMessage("{"), math.NaN(), make(chan int), func() {}, map[string]any{"a": []int{1}}}
	durations = []time.Duration{0, 1, dibs.MinLease, time.Second, time.Minute, dibs.MaxLease, dibs.MaxLease + 1, dibs.MaxDelay, math.MaxInt64, math.MinInt64, -1}
)

func pick[T any](a *anything, all []T) reflect.Value { return reflect.ValueOf(all[a.IntN(len(all))]) }

// randomValue makes a value of a type.
func (a *anything) randomValue(t reflect.Type) reflect.Value {
	switch t {
	case contextType:
		v := reflect.New(t).Elem()
		if n := a.IntN(10); n > 0 { // one in ten contexts is nil
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
			return reflect.ValueOf(a.held.pick(a.Rand))
		}
	case reflect.TypeFor[dibs.Outcome]():
		return reflect.ValueOf(a.randomOutcome())
	case reflect.TypeFor[func(dibs.Tx) error]():
		return reflect.ValueOf(a.randomFunction())
	}
	return a.randomOfKind(t)
}

func (a *anything) randomOfKind(t reflect.Type) reflect.Value {
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
		v.Set(a.randomSlice(t))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(a.Uint64() & 1)
		}
	case reflect.Struct: // most fields stay zero, as callers leave them
		for i := range t.NumField() {
			if a.IntN(4) == 0 || t.Field(i).Type.Kind() == reflect.String && a.IntN(2) == 0 {
				v.Field(i).Set(a.randomValue(t.Field(i).Type))
			}
		}
	case reflect.Pointer:
		// Callers cannot make structs such as sql.Tx themselves: pointers to them are nil.
		if elem := t.Elem(); (elem.Kind() != reflect.Struct || elem == reflect.TypeFor[time.Time]() || elem == reflect.TypeFor[dibs.Backoff]()) && a.IntN(4) > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(a.randomValue(t.Elem()))
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			if x := someAny[a.IntN(len(someAny))]; x != nil {
				v.Set(reflect.ValueOf(x))
			}
		}
	}
	return v // values of other kinds stay zero
}

// randomSlice makes a slice with a few elements, or with more than a call may have.
func (a *anything) randomSlice(t reflect.Type) reflect.Value {
	switch a.IntN(12) {
	case 0:
		return reflect.Zero(t)
	case 1:
		return reflect.MakeSlice(t, dibs.MaxBatch+1, dibs.MaxBatch+1)
	}
	v := reflect.MakeSlice(t, a.IntN(4), 4)
	for i := range v.Len() {
		v.Index(i).Set(a.randomValue(t.Elem()))
	}
	return v
}

// randomOutcome makes an outcome, most often a valid one.
func (a *anything) randomOutcome() dibs.Outcome {
	l := a.held.pick(a.Rand)
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
	return a.randomOfKind(reflect.TypeFor[dibs.Outcome]()).Interface().(dibs.Outcome)
}

// randomFunction makes a function for InTx: it may return an error, panic, or end its goroutine.
func (a *anything) randomFunction() func(dibs.Tx) error {
	n := a.IntN(6)
	if n == 0 {
		return nil
	}
	return func(tx dibs.Tx) error {
		a.useTx(tx)
		switch n {
		case 1:
			panic(panicExpected)
		case 2:
			runtime.Goexit()
		case 3:
			return errExpected
		}
		return nil
	}
}
