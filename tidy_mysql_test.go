package dibs_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MariaDB has the statements of SQLite, or of the mode in which others write meanwhile, but those that this mode never runs.
var (
	onlyMySQL  = strings.Fields("bar_slots diagnose_jobs diagnose_server diagnose_sessions drop_inbox hold_key identity inbox inbox_waiting lock_gap lock_keys locks_rows put_keys put_slots put_turn see_uncommitted share_turn take_slot take_turn touch try_gap verify write_turn")
	notInMySQL = strings.Fields(`
		add_history count_claimed count_running diagnose diagnose_file drop_tally merge_tally unhold
		drop_limits_set drop_queue_limits_set limit_set limits_set tables tally_table uncounted`)
)

// TestTidyMariaDBHasTheStatementsOfSQLite also compares what their headers say of parameters and columns.
func TestTidyMariaDBHasTheStatementsOfSQLite(t *testing.T) {
	t.Parallel()
	has, shared := map[string]string{}, map[string]string{}
	for _, of := range []struct {
		dir string
		to  map[string]string
	}{{"mysql/sql", has}, {"sqlite/sql", shared}, {"sqlite/testdata/concurrent/sql", shared}} {
		names, err := filepath.Glob(of.dir + "/*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has no statements: %v", of.dir, err)
		}
		for _, name := range names {
			of.to[strings.TrimSuffix(filepath.Base(name), ".sql")] = interfaceOf(t, filepath.ToSlash(name))
		}
	}
	for name, want := range shared {
		got, ok := has[name]
		switch {
		case ok == slices.Contains(notInMySQL, name):
			t.Errorf("%s.sql is in mysql/sql, or in the list of those that it has not", name)
		case ok && got != want:
			t.Errorf("mysql/sql/%s.sql has other parameters or columns than SQLite's:\n%s\n%s", name, got, want)
		}
	}
	for name := range has {
		if _, ok := shared[name]; !ok && !slices.Contains(onlyMySQL, name) {
			t.Errorf("mysql/sql/%s.sql has no counterpart, and is not in the list of those that only it has", name)
		}
	}
}
