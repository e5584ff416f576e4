package model_test

import (
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
)

// TestRunsPrintAsTheirOwnCode makes every kind of call, and expects the run to print, but
// for layout, the code of everyCall. So printed runs compile and make the same calls.
func TestRunsPrintAsTheirOwnCode(t *testing.T) {
	t.Parallel()
	r := model.Start(t, model.SQLite(t, nil))
	everyCall(r)
	r.Same()
	want := bodyOf(t, "everyCall")
	if got := formatted(t, strings.Join(r.Code(), "\n")); got != want {
		t.Fatalf("printed:\n%s\nwant:\n%s", got, want)
	}
}

func everyCall(r *model.Run) {
	r.Enqueue(dibs.NewJob{Queue: "a", Kind: "k1", Payload: json.RawMessage("[1]"), Priority: new(0), Delay: 2 * time.Hour, Group: "g", UniqueKey: "x", UniqueUntil: "claimed"}, dibs.NewJob{Queue: "a", Kind: "k2", Metadata: json.RawMessage("{\"m\": 1}"), RunAt: r.In(-90 * time.Minute), MaxAttempts: 2})
	r.Claim(dibs.ClaimRequest{Queue: "a", Worker: "w1", N: 2, Kinds: []string{"k1", "k2"}, Lease: 3 * time.Hour})
	r.Extend(2*time.Hour, dibs.Lease{ID: 2, Token: model.Token(1)}, dibs.Lease{ID: 1, Token: model.Token(2)})
	r.Pass(1 * time.Hour)
	r.Resume(dibs.ClaimRequest{Queue: "a", Worker: "w1"})
	r.Finish(dibs.Outcome{ID: 2, Token: model.Token(2), Ending: "retry", Error: "e", Delay: new(1 * time.Hour)})
	r.Edit(admin.Edit{Priority: new(7), RunAt: new(r.In(30 * time.Minute))}, 1, 2)
	r.SetQueue("a", dibs.QueueChange{Paused: new(false), Strict: new(true), Order: new(dibs.Order("lifo")), Backoff: &dibs.Backoff{Base: 2 * time.Hour, Factor: 2, Max: 4 * time.Hour}, KeepDead: new(time.Duration(0))})
	r.SetGroup("a", "g", 2)
	r.Another()
	r.Pass(2 * time.Hour)
	r.Begin()
	r.Claim(dibs.ClaimRequest{Queue: "a", Worker: "w2", N: 1})
	r.Enqueue(dibs.NewJob{Queue: "b", Kind: "k1"})
	r.Commit()
	r.Begin()
	r.Rollback()
	r.Sweep()
	r.Cancel(1, 3)
	r.Requeue(1, 2, 3)
	r.List(admin.Filter{Queue: "a", State: "waiting", Limit: 1})
	r.Get(1)
	r.Prune("", "completed", 0)
	r.Enqueue(dibs.NewJob{Queue: "b", Kind: "k1", Ref: "r"}, dibs.NewJob{Queue: "b", Kind: "k1", After: []dibs.Dep{{ID: 3}, {Ref: "r", On: "ended"}}})
	r.Claim(dibs.ClaimRequest{Queue: "b", Worker: "w1", N: 1})
	r.Finish(dibs.Outcome{ID: 3, Token: model.Token(4), Ending: "completed", Add: []dibs.NewJob{{Queue: "b", Kind: "k2"}}})
	r.DeleteEnded(1, 2)
}

// bodyOf returns the source of a function of this file.
func bodyOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	body := file.Scope.Lookup(name).Decl.(*ast.FuncDecl).Body
	return formatted(t, string(text[body.Lbrace:body.Rbrace-1]))
}

func formatted(t *testing.T, statements string) string {
	t.Helper()
	text, err := format.Source([]byte(strings.TrimSpace(statements)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, statements)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n\t", "\n")
}
