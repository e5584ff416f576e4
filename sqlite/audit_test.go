package sqlite_test

import (
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestOldChangesAreForgotten(t *testing.T) {
	s := openStore(t, sqlite.Options{})
	if _, err := s.DB().ExecContext(t.Context(), "insert into dibs_audit (id, at, who, did, what, n) values (1, 0, 'old', 'x', 'y', 1), (10000, 0, 'new', 'x', 'y', 1)"); err != nil {
		t.Fatal(err)
	}
	if err := s.NoteChange(t.Context(), admin.Change{Who: "newest", Did: "x"}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Changes(t.Context(), admin.MaxChanges)
	if err != nil || len(list) != 2 || list[0].Who != "newest" || list[1].Who != "new" {
		t.Errorf("got %+v, %v", list, err)
	}
}
