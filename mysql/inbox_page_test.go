package mysql_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

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
