package mysql_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// The SQL of the page about the inbox does what the page says.
func TestThePageAboutTheInboxWorks(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address+"?multiStatements=true")
	page, err := os.ReadFile("../docs/howto/sql-mariadb.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(page, -1) {
		execute(t, db, string(block[1]))
	}
	for queue, want := range map[string][]string{
		"mail": {`{"order": 1}`}, "reports": nil, "index": {"8"}, "invoices": {`{"order": 2}`},
	} {
		if got := payloads(t, s, queue); !slices.Equal(got, want) {
			t.Errorf("a claim from %s gets %q, want %q", queue, got, want)
		}
	}
	stats, err := s.Stats(t.Context())
	if err != nil || len(stats) != 4 || inInbox(t, db) != 0 {
		t.Errorf("there are %d queues, and %d rows in the inbox, %v", len(stats), inInbox(t, db), err)
	}
	hasNoDamage(t, s)
}

// Each field of a new job has a column that the page names, or is left out with a reason.
func TestEachFieldOfAJobHasAColumnInTheInbox(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/howto/sql-mariadb.md")
	if err != nil {
		t.Fatal(err)
	}
	without := map[string]string{"ref": "rows are calls of their own", "after": "rows have no jobs' ids"}
	capital := regexp.MustCompile("[A-Z]")
	for field := range reflect.TypeFor[dibs.NewJob]().Fields() {
		column := strings.TrimPrefix(strings.ToLower(capital.ReplaceAllString(field.Name, "_$0")), "_")
		if column == "group" {
			column = "group_key"
		}
		if without[column] == "" && !strings.Contains(string(page), "`"+column+"`") {
			t.Errorf("no column for %s", field.Name)
		}
	}
}
