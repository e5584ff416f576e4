package dibs_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// misused names the test that gives bad arguments to each exported function and method,
// except the methods of admin.Database and dibs.Tx, all of which storetest's chapter misuse
// calls.
var misused = map[string]string{
	"dibs.Step":              "TestBadStepsAreRefusedBeforeTheyRun",
	"dibs.StepIn":            "TestBadStepsAreRefusedBeforeTheyRun",
	"sqlite.Store.Before":    "TestStore",
	"postgres.Store.Before":  "TestStore",
	"sqlite.Store.Steps":     "TestStore",
	"sqlite.Store.PutStep":   "TestStore",
	"postgres.Store.Steps":   "TestStore",
	"postgres.Store.PutStep": "TestStore",
	"dibs.RawJob.Before":     "TestTheJobsBeforeAreOnlyKnownInAHandler",

	"dibs.Handle":           "TestARegistrationThatCannotWorkPanicsAtOnce",
	"dibs.Worker.HandleRaw": "TestARegistrationThatCannotWorkPanicsAtOnce",
	"dibs.Worker.Run":       "TestAWorkerThatIsNotSetUpDoesNotRun",

	"dibs.HandleBatch":         "TestAnInvalidKindIsAProgrammersError",
	"dibs.Worker.Use":          "TestAnInvalidKindIsAProgrammersError",
	"dibs.NewKind":             "TestAnInvalidKindIsAProgrammersError",
	"dibs.Kind.Handle":         "TestAnInvalidKindIsAProgrammersError",
	"dibs.Kind.Enqueue":        "TestAnInvalidKindIsAProgrammersError",
	"dibs.Kind.HandleBatch":    "TestAnInvalidKindIsAProgrammersError",
	"dibs.Kind.Schedule":       "TestPlainFunctionsTakeAnything",
	"dibs.Kind.Name":           "TestPlainFunctionsTakeAnything",
	"dibs.Kind.New":            "TestPlainFunctionsTakeAnything",
	"dibs.InGroup":             "TestBadOptionsAreRefusedByTheField",
	"dibs.UniqueKey":           "TestBadOptionsAreRefusedByTheField",
	"dibs.UniqueByPayload":     "TestBadOptionsAreRefusedByTheField",
	"dibs.Priority":            "TestBadOptionsAreRefusedByTheField",
	"dibs.Delay":               "TestBadOptionsAreRefusedByTheField",
	"dibs.Ref":                 "TestBadOptionsAreRefusedByTheField",
	"dibs.After":               "TestBadOptionsAreRefusedByTheField",
	"dibs.AfterEnd":            "TestBadOptionsAreRefusedByTheField",
	"dibs.AfterFailure":        "TestBadOptionsAreRefusedByTheField",
	"dibs.RawJob.FinishIn":     "TestPlainFunctionsTakeAnything",
	"dibs.OutcomeOf":           "TestPlainFunctionsTakeAnything",
	"dibs.Backoff.After":       "TestPlainFunctionsTakeAnything",
	"dibs.DefaultSettings":     "TestPlainFunctionsTakeAnything",
	"dibs.Die":                 "TestPlainFunctionsTakeAnything",
	"dibs.Release":             "TestPlainFunctionsTakeAnything",
	"dibs.Retry":               "TestPlainFunctionsTakeAnything",
	"dibs.RetryAfter":          "TestPlainFunctionsTakeAnything",
	"dibs.Snooze":              "TestPlainFunctionsTakeAnything",
	"dibs.State.Final":         "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.LastAttempt":  "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.Lease":        "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.After":        "TestPlainFunctionsTakeAnything",
	"dibs.Outcome.LeavesError": "TestPlainFunctionsTakeAnything",
	"dibs.Backoff.Delay":       "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.Add":          "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.SetResult":    "TestPlainFunctionsTakeAnything",
	"dibs.RawJob.SetProgress":  "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Cancel":        "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Complete":      "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Die":           "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Release":       "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Retry":         "TestPlainFunctionsTakeAnything",
	"dibs.Lease.RetryAfter":    "TestPlainFunctionsTakeAnything",
	"dibs.Lease.Snooze":        "TestPlainFunctionsTakeAnything",
	"dibs.Token.IsZero":        "TestPlainFunctionsTakeAnything",
	"dibs.Token.MarshalText":   "TestPlainFunctionsTakeAnything",
	"dibs.Token.String":        "TestPlainFunctionsTakeAnything",
	"dibs.Token.UnmarshalText": "TestPlainFunctionsTakeAnything",
	"dibs.Worker.Kinds":        "TestAWorkerThatIsNotSetUpDoesNotRun",
	"dibs.Worker.Live":         "TestAWorkerThatDoesNotRunSaysSo",
	"dibs.Worker.Ready":        "TestAWorkerThatDoesNotRunSaysSo",
	"dibs.Worker.StopNow":      "TestAWorkerThatDoesNotRunSaysSo",
	"dibs.InvalidError.Error":  "TestPlainFunctionsTakeAnything",
	"dibs.InvalidError.Is":     "TestPlainFunctionsTakeAnything",
	"dibs.FinishError.Error":   "TestPlainFunctionsTakeAnything",
	"dibs.FinishError.Is":      "TestPlainFunctionsTakeAnything",

	"sqlite.Open":        "TestOptionsAreChecked",
	"sqlite.Migrate":     "TestOptionsAreChecked",
	"sqlite.Migrations":  "TestOptionsAreChecked",
	"sqlite.Store.SQLTx": "TestTransactionsThatAreNotTheStoresAreRefused",
	"sqlite.Store.DB":    "TestTransactionsThatAreNotTheStoresAreRefused",
	"sqlite.Store.Locks": "TestStore",

	"dibs.QueueChange.Apply": "TestChangesOfNothingAreRefused",
	"dibs.GroupChange.Apply": "TestChangesOfNothingAreRefused",

	"postgres.Open":               "TestFunctionsRefuseBadArguments",
	"postgres.New":                "TestFunctionsRefuseBadArguments",
	"postgres.Migrate":            "TestFunctionsRefuseBadArguments",
	"postgres.Migrations":         "TestFunctionsRefuseBadArguments",
	"postgres.DeniedError.Error":  "TestGrantsOfAnErrorHelp",
	"postgres.DeniedError.Is":     "TestGrantsOfAnErrorHelp",
	"postgres.DeniedError.Unwrap": "TestGrantsOfAnErrorHelp",
	"postgres.Store.Tx":           "TestStore",
	"postgres.Store.SQLTx":        "TestStore",
	"postgres.Store.Locks":        "TestStore",
	"postgres.Store.Repair":       "TestStore",
	"sqlite.Store.Repair":         "TestStore",
	"postgres.Store.Diagnose":     "TestDiagnoseRefusesBadArguments",
	"sqlite.Store.Diagnose":       "TestDiagnoseRefusesBadArguments",
	"postgres.DiagnoseTable":      "TestDiagnoseOfATableRefusesBadArguments",
	"sqlite.DiagnoseFile":         "TestDiagnoseOfAFileRefusesBadArguments",
	"postgres.Store.Use":          "TestStore",
	"sqlite.Store.Use":            "TestStore",

	"postgres.Store.Figures":        "TestFiguresOfAStore",
	"postgres.Store.SetLog":         "TestAListenerWhoseWireFallsSilentListensAgain",
	"postgres.Store.ObserveBatches": "TestBatchesAreObserved",
	"sqlite.Store.ObserveBatches":   "TestBatchesAreObserved",
	"sqlite.Store.Figures":          "TestFiguresOfAStore",
}

// Every exported function and method has a test that gives it bad arguments.
func TestEveryFunctionIsMisusedByATest(t *testing.T) {
	t.Parallel()
	database := reflect.TypeFor[admin.Database]()
	left := make(map[string]bool, len(misused))
	for name := range misused {
		left[name] = true
	}
	for _, dir := range []string{".", "sqlite", "postgres"} {
		tests := testsIn(t, dir)
		for _, name := range exported(t, dir) {
			delete(left, name)
			_, method, _ := strings.Cut(name, ".Store.")
			if _, ok := database.MethodByName(method); ok {
				continue
			}
			if test := misused[name]; !tests[test] {
				t.Errorf("%s is misused by no test: there is no %q beside it", name, test)
			}
		}
	}
	for name := range left {
		t.Errorf("there is no %s", name)
	}
}

// exported lists the functions of a folder, and the methods of its types, that users can name.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := file.Name.Name + "."
			if f.Recv != nil {
				of := receiver(f.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name += of + "."
			}
			names = append(names, name+f.Name.Name)
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
	}
	return tests
}

// Functions without side effects accept any argument without a panic.
func TestPlainFunctionsTakeAnything(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, -1, math.MinInt64, math.MaxInt64} {
		for _, err := range []error{dibs.Snooze(d), dibs.Retry(nil), dibs.RetryAfter(d, nil), dibs.Die(nil), dibs.Release()} {
			if err.Error() == "" {
				t.Errorf("an error for a handler to return has no text: %#v", err)
			}
		}
		for _, l := range []dibs.Lease{{}, {ID: -1}} {
			for _, o := range []dibs.Outcome{l.Complete(nil), l.Retry(""), l.RetryAfter(d, ""), l.Snooze(d), l.Release(), l.Die(""), l.Cancel("")} {
				if o.ID != l.ID || o.Ending == "" {
					t.Errorf("the outcome is %v", o)
				}
			}
		}
	}
	job := &dibs.Job[string]{}
	if job.Lease() != (dibs.Lease{}) || job.LastAttempt() || job.After(dibs.Outcome{}) != dibs.Waiting {
		t.Error("a job that is empty has a lease, or has had its last attempt")
	}
	if (dibs.Outcome{Ending: "x", Error: "e"}).LeavesError() || (dibs.Backoff{}).Delay(-1, 2) != 0 {
		t.Error("an ending that there is not leaves an error, or an empty backoff waits")
	}
	var none context.Context
	if (dibs.Backoff{}).After(-1, nil) != 0 || dibs.OutcomeOf(none, errors.New("")).Ending != dibs.EndRetry {
		t.Error("an empty backoff waits, or an empty error is no failure")
	}
	if k := (dibs.Kind[int]{}); k.Name() != "" || k.New(1).Kind != "" || k.Schedule("", "", 1).Kind != "" {
		t.Error("a kind that was not made has a name")
	}
	if err := job.FinishIn(t.Context(), nil, nil); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("FinishIn without a transaction gave %v", err)
	}
	for _, v := range []any{make(chan int), math.NaN(), strings.Repeat("x", dibs.MaxResult)} {
		if err := job.SetResult(v); err == nil {
			t.Errorf("a %T was taken as result", v)
		}
	}
	for _, n := range [][2]int64{{-1, 0}, {0, -1}, {math.MinInt64, 1}} {
		if err := job.SetProgress(n[0], n[1], "\x00"); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("progress %d was taken: %v", n, err)
		}
	}
	job.Add()
	job.Add(dibs.NewJob{Kind: "\x00", Payload: make(chan int), After: []dibs.Dep{{}}})
	if err := job.FinishIn(t.Context(), nil, nil); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("FinishIn without a transaction, of a job that adds another, gave %v", err)
	}
	if err := job.SetProgress(2, 1, "\xff"); err != nil {
		t.Errorf("progress of a job that no handler has gave %v", err)
	}
	if dibs.State("?").Final() || dibs.DefaultSettings("").Lease == 0 {
		t.Error("a state that there is not is final, or a queue without a name has no settings")
	}
	var token dibs.Token
	for _, text := range []string{"x", strings.Repeat("x", 32), strings.Repeat("a", 1000)} {
		if err := token.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%.40q was taken as token", text)
		}
	}
	if text, err := (dibs.Token{}).MarshalText(); err != nil || len(text) != 0 || !token.IsZero() && token.String() == "" {
		t.Errorf("no token is written as %q, %v", text, err)
	}
	for _, err := range []error{&dibs.InvalidError{}, &dibs.FinishError{}} {
		if err.Error() == "" || err.(interface{ Is(error) bool }).Is(nil) {
			t.Errorf("%T without content has no text, or is nil", err)
		}
	}
}

func TestBeforeOutsideOfAHandlerReadsNothing(t *testing.T) {
	t.Parallel()
	for job, err := range (&dibs.RawJob{ID: 1}).Before(context.Background()) {
		if job != nil || !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("Before gives %v, %v", job, err)
		}
	}
}
