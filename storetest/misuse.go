package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A store answers any misuse with an error: no call panics, hangs, or leaves the store
// unusable for others.
var misuseCases = []oneCase{
	{"a nil context is refused", nilContext},
	{"a store that was never opened says so", neverOpened},
	{"calls with any arguments leave the store usable", anyArguments},
	{"calls beside Close work, or say that the store is closed", besideClose},
	{"a transaction that has ended says so", endedTx},
	{"a transaction used by several goroutines does each call as a whole", sharedTx},
	{"a panic in a transaction's function gives the transaction up", panicInTx},
}

// expectUsable enqueues, claims and completes a job.
func (t *test) expectUsable() {
	t.Helper()
	id := t.enqueue(dibs.NewJob{Queue: "usable", Kind: "k"})[0]
	j := t.claimOne(dibs.ClaimRequest{Queue: "usable"})
	equal(t, "claimed job", j.ID, id)
	t.finish(j.Lease().Complete(nil))
	t.expectRefused([]int64{id}, j.Lease().Complete(nil))
	expectConsistent(t.T, t.db)
}

func nilContext(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	j := t.claimOne(dibs.ClaimRequest{})
	tx := t.beginTx()
	var none context.Context
	calls := everyCall(none, t.db, j)
	calls["Tx.Enqueue"] = func() error { _, err := tx.Enqueue(none, copies(1, dibs.NewJob{Kind: "k"})); return err }
	calls["Tx.Claim"] = func() error { _, err := tx.Claim(none, dibs.ClaimRequest{N: 1, Worker: "w"}); return err }
	calls["Tx.ChangeGroup"] = func() error { return tx.ChangeGroup(none, "q", "g", dibs.GroupChange{Limit: new(2)}.Apply) }
	calls["Tx.Finish"] = func() error { return tx.Finish(none, []dibs.Outcome{j.Lease().Complete(nil)}) }
	for name, call := range calls {
		for range 6 { // more often than a pool has connections
			var invalid *dibs.InvalidError
			if err := call(); !errors.As(err, &invalid) || invalid.Field != "ctx" {
				t.Fatalf("%s gave %v, want an InvalidError of ctx", name, err)
			}
		}
	}
	t.must(tx.Rollback())
	t.expectUsable()
}

// neverOpened calls every method of a nil store, and of one that was made without Open.
func neverOpened(t *test) {
	opened := reflect.TypeOf(t.db)
	if opened.Kind() != reflect.Pointer {
		return // only a pointer to a store can be nil, or point to one that was never opened
	}
	for _, store := range []reflect.Value{reflect.Zero(opened), reflect.New(opened.Elem())} {
		db := store.Interface().(admin.Database)
		for name, call := range everyCall(t.ctx, db, &dibs.RawJob{ID: 1, Token: dibs.Token{1}}) {
			if err := recovered(call); !errors.Is(err, dibs.ErrInvalid) {
				t.Fatalf("%s gave %v, want ErrInvalid", name, err)
			}
		}
		t.must(recovered(func() error {
			_, stop := db.Wakeups("q")
			stop()
			db.Wake("q")
			return db.Close()
		}))
	}
}

// recovered turns a panic of the call into an error.
func recovered(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panics: %v", p)
		}
	}()
	return call()
}

// methodNames lists all methods of admin.Database except Close, and those of the store itself
// for callers' transactions and locks, if it has them.
func (t *test) methodNames(db admin.Database) []string {
	var names []string
	methods := reflect.TypeFor[admin.Database]()
	for i := range methods.NumMethod() {
		names = append(names, methods.Method(i).Name)
	}
	for _, name := range []string{"SQLTx", "Tx", "Locks"} {
		if reflect.ValueOf(db).MethodByName(name).IsValid() {
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "Close" })
}

// misuse calls methods with arguments that its anything makes.
type misuse struct {
	*test
	anything
}

func (t *test) newMisuse(seed uint64, held *heldLeases) *misuse {
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	m := &misuse{test: t, anything: anything{Rand: rand.New(rand.NewPCG(seed, 0)), live: t.ctx, ended: ended, held: held}}
	m.useTx = func(tx dibs.Tx) {
		for range m.IntN(3) {
			_ = m.callOnce(reflect.ValueOf(tx), []string{"Enqueue", "Claim", "Finish"}[m.IntN(3)]) // callOnce reports panics and hangs itself
		}
	}
	return m
}

// callOnce makes one call on a new goroutine, since the caller's function may panic or end its
// goroutine. It returns the call's error.
func (m *misuse) callOnce(on reflect.Value, name string) (err error) {
	method := on.MethodByName(name)
	args := make([]reflect.Value, method.Type().NumIn())
	for i := range args {
		args[i] = m.randomValue(method.Type().In(i))
	}
	if name == "Wait" && !args[0].IsNil() { // the job may never end
		brief, cancel := context.WithTimeout(args[0].Interface().(context.Context), 10*time.Millisecond)
		defer cancel()
		args[0] = reflect.ValueOf(brief)
	}
	noCtx := len(args) > 0 && args[0].Type() == contextType && args[0].IsNil()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil && p != panicExpected {
				m.Errorf("%s(%.300s) panics: %v\n%s", name, fmt.Sprint(args), p, debug.Stack())
			}
		}()
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		for _, out := range call(args) {
			switch v := out.Interface().(type) {
			case error:
				err = v
			case []*dibs.RawJob:
				m.held.add(v)
			case func(): // the function that stops Wakeups
				v()
				v()
			case dibs.Tx:
				_, err = v.Enqueue(m.ctx, copies(1, dibs.NewJob{Kind: "k"}))
			}
		}
		if noCtx && !errors.Is(err, dibs.ErrInvalid) && !errors.Is(err, dibs.ErrClosed) {
			m.Errorf("%s with a nil context gave %v", name, err)
		}
	}()
	select {
	case <-done:
	case <-time.After(patience):
		m.Errorf("%s(%.300s) has not returned after %v", name, fmt.Sprint(args), patience)
	}
	return err
}

// recognisable reports whether callers can recognise the error with errors.Is.
func recognisable(err error) bool {
	for _, e := range []error{
		dibs.ErrInvalid, dibs.ErrClosed, dibs.ErrLeaseLost, dibs.ErrNotFound, dibs.ErrUnknownQueue, dibs.ErrQueueInUse, dibs.ErrUnknownSchedule,
		dibs.ErrUnavailable, context.Canceled, context.DeadlineExceeded, sql.ErrTxDone, errExpected,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil
}

func anyArguments(t *test) {
	rounds, goroutines := 1, 4
	if os.Getenv("DIBS_SOAK") != "" {
		rounds, goroutines = 30, 16
		t.ctx = context.WithoutCancel(t.ctx) // a long run takes longer than patience
	}
	r, names, held := t.random(), t.methodNames(t.db), &heldLeases{}
	for range rounds {
		seeds := make([]uint64, goroutines)
		for i := range seeds {
			seeds[i] = r.Uint64()
		}
		t.runAtOnce(goroutines, func(i int) error {
			m := t.newMisuse(seeds[i], held)
			for range 8 {
				for _, n := range m.Perm(len(names)) {
					if err := m.callOnce(reflect.ValueOf(t.db), names[n]); !recognisable(err) && names[n] != "InTx" {
						t.Errorf("%s gave an error that callers cannot recognise: %v", names[n], err)
					}
				}
			}
			return nil
		})
		if t.Failed() {
			return
		}
	}
	t.expectUsable()
}

func besideClose(t *test) {
	for range 3 {
		db := t.Another(t)
		j := &dibs.RawJob{ID: 1, Token: dibs.Token{1}}
		var calls []func() error
		var names []string
		for name, call := range everyCall(t.ctx, db, j) {
			names, calls = append(names, name), append(calls, call)
		}
		var begun atomic.Int64
		var open sync.WaitGroup
		for i, call := range calls {
			open.Go(func() {
				for {
					err := call()
					begun.Add(1)
					switch {
					case errors.Is(err, dibs.ErrClosed):
						return
					// Closing the pool must not look like a cancelled context to callers.
					case !recognisable(err), errors.Is(err, context.Canceled):
						t.Errorf("%s beside Close gave %v", names[i], err)
						return
					}
				}
			})
		}
		t.waitUntil("the calls are under way", func() bool { return begun.Load() >= int64(len(calls)) })
		t.runAtOnce(2, func(int) error { return db.Close() })
		open.Wait()
	}
	t.expectUsable()
}

func endedTx(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	j := t.claimOne(dibs.ClaimRequest{})
	for _, commit := range []bool{true, false} {
		tx := t.beginTx()
		t.enqueueOn(tx, dibs.NewJob{Queue: "other", Kind: "k"})
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		t.must(end())
		for _, ended := range []dibs.Tx{tx.Tx, tx.Again()} {
			if _, err := ended.Enqueue(t.ctx, copies(1, dibs.NewJob{Kind: "k"})); err == nil {
				t.Error("Enqueue worked")
			}
			if _, err := ended.Claim(t.ctx, dibs.ClaimRequest{Worker: "w", N: 1}); err == nil {
				t.Error("Claim worked")
			}
			if err := ended.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}); err == nil {
				t.Error("Finish worked")
			}
		}
	}
	equal(t, "waiting jobs", t.stats(dibs.DefaultQueue).Waiting, int64(1))
	equal(t, "jobs of the transaction that was committed", t.stats("other").Waiting, int64(1))
	t.expectUsable()
}

func sharedTx(t *test) {
	const each = 6
	t.enqueue(copies(4*each, dibs.NewJob{Queue: "from", Kind: "k"})...)
	tx := t.beginTx()
	t.runAtOnce(4, func(int) error {
		for range each {
			if _, err := tx.Enqueue(t.ctx, copies(2, dibs.NewJob{Queue: "to", Kind: "k"})); err != nil {
				return err
			}
			jobs, err := tx.Claim(t.ctx, dibs.ClaimRequest{Queue: "from", Worker: "w", N: 1})
			if err != nil || len(jobs) != 1 {
				return fmt.Errorf("claimed %d jobs: %w", len(jobs), err)
			}
			if err := tx.Finish(t.ctx, []dibs.Outcome{jobs[0].Lease().Die("x")}); err != nil {
				return err
			}
		}
		return nil
	})
	t.must(tx.Commit())
	equal(t, "enqueued jobs", t.stats("to").Waiting, int64(8*each))
	equal(t, "dead jobs", t.stats("from").Dead, int64(4*each))
	t.expectUsable()
}

func panicInTx(t *test) {
	for range 10 { // more often than a pool has connections
		func() {
			defer func() {
				if p := recover(); p != panicExpected {
					t.Fatalf("InTx panics with %v, want the function's panic", p)
				}
			}()
			_ = t.db.InTx(t.ctx, func(tx dibs.Tx) error {
				t.enqueueOn(tx, dibs.NewJob{Queue: "q", Kind: "k"})
				panic(panicExpected)
			})
		}()
	}
	if err := t.db.InTx(t.ctx, nil); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("InTx without a function gave %v", err)
	}
	t.expectUsable()
}
