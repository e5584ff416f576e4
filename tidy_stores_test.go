package dibs_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// onlyIn are the files of Go that only one store has, and why. All others have the same name in both, so that one can be
// read beside the other. What SQLite decides in Go is in internal/rowstore.
var onlyIn = map[string]map[string]string{
	"postgres": {
		"conn":    "statements go by pgx or database/sql, several in one round trip",
		"copy":    "large batches go by COPY",
		"figures": "what metrics show of the pool, of merged calls and of marks",
		"lanes":   "lanes are remembered by each process",
		"marks":   "claims begin behind dead rows",
		"merge":   "calls made at the same time share a statement",
		"rights":  "roles lack rights",
		"slots":   "connections of a server are few",
		"ticks":   "several processes take ticks at the same time",
	},
	"sqlite": {
		"concurrent":     "what replaces the one writer is tried on SQLite",
		"database":       "the methods that internal/rowstore has are documented here",
		"diagnose_linux": "the system tells who holds a lock",
		"diagnose_other": "or does not",
		"engine":         "what internal/rowstore needs",
		"gone":           "a file can be replaced",
		"group":          "groups are given their places in Go",
		"line":           "processes queue for the file",
		"line_unix":      "by a lock of the system's",
		"line_windows":   "by a lock of the system's",
		"locked":         "rows that other transactions hold are passed over, where others write meanwhile",
		"path":           "a file has a path",
		"prepared":       "statements are prepared for each connection",
		"rows":           "columns are read by scanners of database/sql",
		"session":        "one transaction serves many calls",
		"turn":           "connections of a process take turns to write",
		"verify":         "a caller's transaction may be on another file",
		"writer":         "one goroutine writes",
	},
}

func TestTidyStoresHaveTheSameFiles(t *testing.T) {
	t.Parallel()
	has := map[string]map[string]bool{"postgres": {}, "sqlite": {}}
	for _, name := range files(t, ".go") {
		store := path.Dir(name)
		if store == "internal/rowstore" {
			store = "sqlite"
		}
		if base := path.Base(name); has[store] != nil && !strings.HasSuffix(base, "_test.go") {
			has[store][strings.TrimSuffix(base, ".go")] = true
		}
	}
	for store, other := range map[string]string{"postgres": "sqlite", "sqlite": "postgres"} {
		for _, name := range slices.Sorted(maps.Keys(has[store])) {
			if has[other][name] == (onlyIn[store][name] != "") {
				t.Errorf("%s.go: a file has the same name in all stores, or is in the list of those that only %s has, with the reason", name, store)
			}
		}
		for name := range onlyIn[store] {
			if !has[store][name] {
				t.Errorf("%s.go is listed as a file of %s, but is not there", name, store)
			}
		}
	}
}
