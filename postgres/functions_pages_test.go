package postgres_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/postgres"
)

// runPage runs the SQL of a page of the documentation, block after block.
func runPage(t *testing.T, page string) (s *postgres.Store, address string) {
	t.Helper()
	s, address = migrated(t, postgres.Options{})
	text, err := os.ReadFile("../docs/howto/" + page)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, address)
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(text, -1) {
		execute(t, conn, string(block[1]))
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	consistent(t, s)
	return s, address
}

// jobsIn lists kinds and payloads of a queue's jobs, oldest first.
func jobsIn(t *testing.T, s *postgres.Store, queue string) string {
	t.Helper()
	page, err := s.List(t.Context(), admin.Filter{Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i := range page.Jobs {
		j := page.Jobs[len(page.Jobs)-1-i]
		list = append(list, j.Kind+" "+string(j.Payload))
	}
	return strings.Join(list, "; ")
}

func TestThePageAboutSQLWorks(t *testing.T) {
	t.Parallel()
	s, _ := runPage(t, "sql.md")
	for queue, want := range map[string]string{
		"confirm": `confirm {"order": 1}`, "reports": "reports null", "index": "index 7", "digest": "digest null",
		"emails": `welcome {"to": "ann@example.com"}; emails {"to": "ann@example.com"}; emails {"to": "bob@example.com"}`,
	} {
		if got := jobsIn(t, s, queue); got != want {
			t.Errorf("%s: %s, want %s", queue, got, want)
		}
	}
}

// A row that changes has its jobs, one that is rolled back has none, and a large statement is one
// call for each 10,000 rows.
func TestThePageAboutTriggersWorks(t *testing.T) {
	t.Parallel()
	s, address := runPage(t, "triggers.md")
	if got, want := jobsIn(t, s, "index"), `customer {"customer" : 1}; customer {"customer" : 2}`; got != want {
		t.Errorf("to be indexed are %s, want %s", got, want)
	}
	if got, want := jobsIn(t, s, "emails"), `welcome {"to" : "ann@example.com"}; welcome {"to" : "bob@example.com"}`; got != want {
		t.Errorf("to be welcomed are %s, want %s", got, want)
	}
	conn := connect(t, address)
	execute(t, conn, "begin; insert into customers (name) values ('Cid'); rollback")
	execute(t, conn, "alter table customers disable trigger index_customer; insert into customers (name, email) select 'n', i from generate_series(1, 10001) i; insert into customers (name) select 'nobody' where false")
	if n := one[int](t, conn, "select count(*) from dibs.job where queue = 'emails'"); n != 10003 {
		t.Errorf("%d jobs, want 10003", n)
	}
	// A role that may only change the table needs no right to enqueue.
	execute(t, conn, "create role only_customers; grant insert on customers to only_customers; set role only_customers; insert into customers (name) values ('Dee')")
	execute(t, conn, "reset role; drop owned by only_customers; drop role only_customers")
	consistent(t, s)
}
