package rowstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"

	_ "modernc.org/sqlite"
)

// Claims may name any number of queues: what is remembered of them is bounded.
func TestTheCacheOfQueuesIsBounded(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m := NewMemory()
	s := NewSession(t.Context(), db, &Dialect{Statements: Statements{"queue": "select 1 where ?1 is null"}})
	s.Use(m)
	for i := range maxCached + 500 {
		if q, err := s.queue(fmt.Sprint("none", i)); q != nil || err != nil {
			t.Fatal(q, err)
		}
	}
	if n := len(m.queues); n > 10_000 {
		t.Errorf("%d queues are remembered", n)
	}
}

// Rows go in lists of bounded length, each row whole and in its order.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	type row struct{ Text string }
	var rows, back []row
	for i := range 100 {
		rows = append(rows, row{strings.Repeat("<\"\\", i*i)})
	}
	rows = append(rows, row{strings.Repeat("x", 2*fullList)}, row{})
	n := 0
	for list := range lists(rows) {
		var some []row
		if err := json.Unmarshal([]byte(list), &some); err != nil {
			t.Fatal(err)
		}
		if length := len(list) - len(jsonText(some[len(some)-1])); length > fullList {
			t.Errorf("a list of %d bytes went on", length)
		}
		back = append(back, some...)
		n++
	}
	if !slices.Equal(back, rows) || n < 3 {
		t.Errorf("%d lists do not hold the rows in their order", n)
	}
	for list := range lists([]row{}) {
		t.Errorf("no rows are the list %s", list)
	}
}

// A history to which an error is added as a text reads as one that is encoded anew.
func TestAnErrorIsAddedToAnyHistory(t *testing.T) {
	t.Parallel()
	entry := func(n int) string {
		return jsonText(dibs.AttemptError{Attempt: n, Error: fmt.Sprintf("]%d,[", n), Worker: "w"})
	}
	entries := func(n int, between string) string {
		var all []string
		for i := range n {
			all = append(all, entry(i))
		}
		return "[" + between + strings.Join(all, between+","+between) + between + "]"
	}
	kept := []string{"", "null", "[]", "[ ]\n", "{}", "[1]", "[{}]", "[null]", "no JSON", "[" + entry(1), `"[]"`, `[{"attempt":"one"}]`, `[{"extra":[1,[2]]}]`}
	for n := range dibs.MaxErrors + 3 {
		kept = append(kept, entries(n+1, ""), entries(n+1, " \r\n\t")+" \n")
	}
	for _, was := range kept {
		j := heldJob{attempt: 7, worker: "w", errors: was}
		e := dibs.AttemptError{Attempt: 7, RunAt: fromMicro(0), ClaimedAt: fromMicro(0), At: fromMicro(99), Worker: "w", Error: `it "failed"`}
		want := checks.History(checks.ReadHistory([]byte(was)), e)
		got := checks.ReadHistory([]byte(j.failure(99, e.Error)))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q becomes\n%+v, want\n%+v", was, got, want)
		}
	}
}

// A call whose time cannot be read, or one of whose writes fails, fails although it goes on, and writes nothing more.
func TestACallFailsWithTheWritesWhoseErrorsItDoesNotSee(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	texts := Statements{"clock": "select nothing", "bad": "insert into t values (nothing)", "good": "insert into t values (1)", "count": "select count(*) from t"}
	if _, err := db.ExecContext(t.Context(), "create table t (n)"); err != nil {
		t.Fatal(err)
	}
	s := NewSession(t.Context(), db, &Dialect{Statements: texts})
	for name, f := range map[string]func(*Session){
		"clock": func(s *Session) { s.now() },
		"bad":   func(s *Session) { s.later("bad") },
	} {
		err := s.Run(func(s *Session) error {
			f(s)
			s.later("good")
			_, _ = s.exec("good")
			return nil
		})
		if err == nil {
			t.Errorf("%s: the call does not fail", name)
		}
	}
	n := -1
	if err := s.Run(func(s *Session) error { _, err := s.one("count", nil, &n); return err }); err != nil || n != 0 {
		t.Errorf("%d rows were written, and the next call gets %v", n, err)
	}
}
