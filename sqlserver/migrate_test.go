package sqlserver

import (
	"database/sql/driver"
	"fmt"
	"regexp"
	"strings"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

// TestTheTablesAreMadeInOneTransaction reads what upgrade sends: a view is the first statement of its batch, which ends at its first
// error all the same.
func TestTheTablesAreMadeInOneTransaction(t *testing.T) {
	t.Parallel()
	answers := answersOf()
	answers[fmt.Sprintf(takeMigration, defaultPrefix, migrateWithin)] = [][]driver.Value{{int64(0)}}
	s, r := recorded(t, answers)
	run, err := s.upgrade(t.Context(), sqlfiles.Migrations(files))
	if err != nil || len(run) != 1 {
		t.Fatalf("it has run %q, %v", run, err)
	}
	all := r.take()
	aborts, views := false, 0
	for i, e := range all {
		aborts = aborts || e.what == "set xact_abort on"
		if !strings.Contains(e.text, "create ") {
			continue
		}
		bare := strings.TrimSpace(regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(e.text, ""))
		if view := strings.Contains(bare, "create view"); !strings.HasPrefix(bare, "create ") || view && strings.Count(bare, "create ") != 1 {
			t.Errorf("a batch begins with %.40q", bare)
		} else if view {
			views++
		}
		if !aborts || e.conn != all[0].conn || i == len(all)-1 {
			t.Errorf("batch %d is sent outside of the transaction, or goes on after an error", i)
		}
	}
	if views != 2 || all[0].what != "begin" || all[len(all)-1].what != "commit" || counted(all, "commit") != 1 {
		t.Errorf("it has made %d views, and sent %v", views, all)
	}
}

func TestATableOfAnotherProgramIsNotTaken(t *testing.T) {
	t.Parallel()
	s, r := recorded(t, answersOf())
	for number, says := range map[int32]string{codeNoColumn: "another program's", codeNoObject: ""} {
		r.fail = func(string, int) error { return mssql.Error{Number: number} }
		if version, err := s.schemaVersion(t.Context(), s.pool, 1); version != 0 || (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d: version %d, %v", number, version, err)
		}
	}
	r.fail = nil
	s2, _ := recorded(t, map[string][][]driver.Value{"select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from dibs_migration": {{int64(9), int64(9)}}})
	if _, err := s2.schemaVersion(t.Context(), s2.pool, 1); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("a newer schema: %v", err)
	}
}
