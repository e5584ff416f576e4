package model

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// call is a call of one of Run's methods.
type call struct {
	method string
	args   []any
	code   string
}

// required is how many arguments the method needs, before those it takes any number of.
func (c call) required() int {
	method, _ := reflect.TypeFor[*Run]().MethodByName(c.method)
	n := method.Type.NumIn() - 1 // without the receiver
	if method.Type.IsVariadic() {
		n--
	}
	return n
}

// asTest is a failed run as a test that fails the same way.
func asTest(calls []call, failure string) string {
	var b strings.Builder
	b.WriteString("func TestFound(t *testing.T) {\n\tr := model.Start(t, modelDatabases(t))\n")
	for _, c := range calls {
		b.WriteString("\t" + c.code + "\n")
	}
	b.WriteString("\tr.Same()\n}\n")
	return b.String() + failure
}

// shortenFor bounds how long shorten goes on.
const shortenFor = 15 * time.Second

// shorten leaves calls, and arguments of theirs, out of a failed run for as long as it
// still fails, whatever it then fails with. It returns the run as a test.
func shorten(newDatabase Maker, calls []call) string {
	failed, failure := replay(newDatabase, calls, sameEvery)
	if failure == "" {
		return asTest(calls, "which does not fail when it is repeated")
	}
	enough := time.Now().Add(shortenFor)
	shorter := func(try []call) bool {
		if time.Now().After(enough) {
			return false
		}
		again, message := replay(newDatabase, try, len(try)) // a difference shows at the end as well
		if message != "" {
			failed, failure = again, message
		}
		return message != ""
	}
	for size := len(failed); size > 0; size /= 2 {
		for at := 0; at < len(failed); {
			if !shorter(slices.Delete(slices.Clone(failed), at, min(at+size, len(failed)))) {
				at += max(1, size/2)
			}
		}
	}
	for at := 0; at < len(failed); at++ {
		for i := len(failed[at].args) - 1; i > failed[at].required(); i-- {
			try := slices.Clone(failed)
			try[at].args = slices.Delete(slices.Clone(try[at].args), i, i+1)
			shorter(try)
		}
	}
	return asTest(failed, failure)
}

// replay makes calls again on a new database, and compares all that can be seen once
// in so many calls and at the end. It returns the calls up to the one that failed, and its failure.
func replay(newDatabase Maker, calls []call, every int) (failed []call, failure string) {
	t := &quiet{}
	defer t.end()
	var r *Run
	defer func() {
		if x := recover(); x != nil {
			f, ok := x.(found)
			if !ok {
				panic(x)
			}
			if failure = string(f); r != nil {
				failed = r.calls
			}
		}
	}()
	r = Start(t, newDatabase)
	for i, c := range calls {
		if !r.fits(c.method) {
			return nil, ""
		}
		args := make([]reflect.Value, len(c.args))
		for i, a := range c.args {
			args[i] = reflect.ValueOf(a)
		}
		reflect.ValueOf(r).MethodByName(c.method).Call(args)
		if (i+1)%every == 0 || i == len(calls)-1 {
			r.Same()
		}
	}
	return nil, ""
}

// fits says whether a call can be made now: what is not part of a transaction would
// wait for its end.
func (r *Run) fits(method string) bool {
	switch method {
	case "Enqueue", "Claim", "Finish":
		return true
	case "Commit", "Rollback":
		return r.before != nil
	}
	return r.before == nil
}

// quiet is a TB for replay: a failure is a panic.
type quiet struct{ cleanups []func() }

type found string

func (q *quiet) Helper()                        {}
func (q *quiet) Logf(string, ...any)            {}
func (q *quiet) Fatalf(format string, a ...any) { panic(found(fmt.Sprintf(format, a...))) }
func (q *quiet) Cleanup(f func())               { q.cleanups = append(q.cleanups, f) }
func (q *quiet) Context() context.Context       { return context.Background() }

func (q *quiet) end() {
	for _, f := range slices.Backward(q.cleanups) {
		f()
	}
}
