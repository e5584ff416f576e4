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

// required is the number of arguments before the variadic ones.
func (c call) required() int {
	method, _ := reflect.TypeFor[*Run]().MethodByName(c.method)
	n := method.Type.NumIn() - 1 // without the receiver
	if method.Type.IsVariadic() {
		n--
	}
	return n
}

// asTest formats a failed run as a test that fails the same way.
func asTest(calls []call, failure string) string {
	var b strings.Builder
	b.WriteString("func TestFound(t *testing.T) {\n\tr := model.Start(t, modelDatabases(t))\n")
	for _, c := range calls {
		b.WriteString("\t" + c.code + "\n")
	}
	b.WriteString("\tr.Same()\n}\n")
	return b.String() + failure
}

// shortenFor limits the duration of shorten.
const shortenFor = 15 * time.Second

// shorten leaves calls and their arguments out of a failed run as long as it still fails in the same comparison. It returns
// the shortest run as a test.
func shorten(newDatabase Maker, calls []call) string {
	failed, failure := replay(newDatabase, calls, compareEvery)
	if failure == "" {
		return asTest(calls, "The repeated run does not fail.")
	}
	deadline := time.Now().Add(shortenFor)
	shorter := func(candidate []call) bool {
		if time.Now().After(deadline) {
			return false
		}
		replayed, message := replay(newDatabase, candidate, len(candidate)) // one comparison at the end is enough
		if message == "" || compared(message) != compared(failure) {
			return false
		}
		failed, failure = replayed, message
		return true
	}
	for size := len(failed); size > 0; size /= 2 {
		for i := 0; i < len(failed); {
			if !shorter(slices.Delete(slices.Clone(failed), i, min(i+size, len(failed)))) {
				i += max(1, size/2)
			}
		}
	}
	for i := 0; i < len(failed); i++ {
		for arg := len(failed[i].args) - 1; arg > failed[i].required(); arg-- {
			candidate := slices.Clone(failed)
			candidate[i].args = slices.Delete(slices.Clone(candidate[i].args), arg, arg+1)
			shorter(candidate)
		}
	}
	return asTest(failed, failure)
}

// compared is what a failure compares: the end of its first line, after the call.
func compared(failure string) string {
	line, _, _ := strings.Cut(failure, "\n")
	return line[strings.LastIndex(line, "): ")+1:]
}

// replay makes calls again on a new database, and compares all that can be seen after every
// so many calls and at the end. It returns the calls up to the one that failed, and its failure.
func replay(newDatabase Maker, calls []call, every int) (failed []call, failure string) {
	t := &replayTB{}
	defer t.end()
	var r *Run
	defer func() {
		if x := recover(); x != nil {
			f, ok := x.(replayFailure)
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
		if !r.possible(c.method) {
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

// possible reports whether a call can be made now: a call that is not part of the open
// transaction would wait for its end.
func (r *Run) possible(method string) bool {
	switch method {
	case "Enqueue", "Claim", "Finish":
		return true
	case "Commit", "Rollback":
		return r.txStart != nil
	}
	return r.txStart == nil
}

// replayTB is a TB whose failures are panics.
type replayTB struct{ cleanups []func() }

type replayFailure string

func (q *replayTB) Helper()                        {}
func (q *replayTB) Logf(string, ...any)            {}
func (q *replayTB) Fatalf(format string, a ...any) { panic(replayFailure(fmt.Sprintf(format, a...))) }
func (q *replayTB) Cleanup(f func())               { q.cleanups = append(q.cleanups, f) }
func (q *replayTB) Context() context.Context       { return context.Background() }

func (q *replayTB) end() {
	for _, f := range slices.Backward(q.cleanups) {
		f()
	}
}
