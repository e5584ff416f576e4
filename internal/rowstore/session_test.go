package rowstore

import (
	"database/sql"
	"fmt"
	"testing"

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
