package sqlserver

import (
	"database/sql"
	"reflect"
	"strings"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

func TestArgumentsHaveTheTypesOfTheVariables(t *testing.T) {
	t.Parallel()
	const text = "declare\n  @a varbinary(255) = ?1,\n  @b nvarchar(max) = ?2,\n  @c bigint = ?4,\n  @d binary(16) = ?5;\nselect @a, @b, @c, @d"
	s := parse(text)
	if strings.Contains(s.text, "?") || !strings.Contains(s.text, "@d binary(16) = @p5;") {
		t.Errorf("it is sent as %s", s.text)
	}
	named := func(values ...any) (all []any) {
		for i, name := range []string{"p1", "p2", "p4", "p5"} {
			all = append(all, sql.Named(name, values[i]))
		}
		return all
	}
	token := dibs.Token{1}
	for _, c := range []struct{ given, want []any }{
		{[]any{"é", "é", "unused", int64(1), token[:]}, named([]byte("é"), mssql.NVarCharMax("é"), int64(1), token[:])},
		{[]any{"", "", nil, 1, nil}, named([]byte{}, mssql.NVarCharMax(""), 1, []byte(nil))},
		{[]any{nil, nil, nil, nil, nil}, named([]byte(nil), nil, nil, []byte(nil))},
		{[]any{dibs.Completed, dibs.Completed, nil, int16(3), nil}, named([]byte("completed"), mssql.NVarCharMax("completed"), int16(3), []byte(nil))},
	} {
		if got := s.args(c.given); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%#v become %#v, want %#v", c.given, got, c.want)
		}
	}
}

// TestManyJobsAreSentInParts enqueues more than fits into one list, with payloads that are parameters of their own. All ids are
// drawn by the first statement.
func TestManyJobsAreSentInParts(t *testing.T) {
	t.Parallel()
	s, r := recorded(t, answersOf())
	large, middle := strings.Repeat("x", largePayload), strings.Repeat("y", largePayload/2)
	var jobs []dibs.NewJob
	for i := range rowstore.ManyAtOnce {
		jobs = append(jobs, dibs.NewJob{Queue: "q", Kind: "k", Priority: new(i), Payload: middle})
	}
	jobs[3].Payload = large
	done, err := s.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range done {
		if d.ID != int64(7+i) {
			t.Errorf("job %d has the id %d", i, d.ID)
		}
	}
	var sent []event
	for _, e := range r.take() {
		if e.what == "enqueue" {
			sent = append(sent, e)
		}
	}
	if len(sent) != 4 {
		t.Fatalf("the jobs were sent in %d parts", len(sent))
	}
	places := 0
	for i, e := range sent {
		list := string(e.args[0].(mssql.NVarCharMax))
		places += strings.Count(list, `,"q","k",`)
		if own := e.args[1] != nil; own != (i == 1) || own && string(e.args[1].(mssql.NVarCharMax)) != `"`+large+`"` {
			t.Errorf("part %d has the payload %.20v", i, e.args[1])
		}
		if drawn := e.args[2] == nil; drawn != (i == 0) || e.args[3] != rowstore.ManyAtOnce {
			t.Errorf("part %d draws ids: %v, %v", i, e.args[2], e.args[3])
		}
	}
	if places != len(jobs) {
		t.Errorf("%d jobs were sent, want %d", places, len(jobs))
	}
}

func TestStatementsThatAreMadeOfOthersDifferFromThem(t *testing.T) {
	t.Parallel()
	s, err := load("mine_")
	if err != nil {
		t.Fatal(err)
	}
	for name, has := range map[string]string{
		"claim_rated": "from mine_rate r", "fair_rated": "from mine_rate r",
		"claim_newest": "order by c.run_at desc, c.id desc", "claim_rated_newest": "order by c.run_at desc, c.id desc",
	} {
		if !strings.Contains(s.Statements.Get(name), has) {
			t.Errorf("%s lacks %q", name, has)
		}
	}
	for name, text := range s.Statements {
		if strings.Contains(text, defaultPrefix) {
			t.Errorf("%s names tables of the default prefix", name)
		}
	}
	script, err := Migrations(Options{Prefix: "mine_"}, 0)
	if err != nil || strings.Contains(script, defaultPrefix) || strings.Count(script, endOfBatch) != 4 {
		t.Errorf("the migrations have %d batches, %v", strings.Count(script, endOfBatch), err)
	}
	if n := len(batches("a\n\ngo\n\nb\n")); n != 2 {
		t.Errorf("two batches are %d", n)
	}
}
