package dibs_test

import (
	"go/ast"
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
		"inbox":          "MariaDB has neither functions nor views that enqueue",
		"line":           "processes queue for the file",
		"line_unix":      "by a lock of the system's",
		"line_windows":   "by a lock of the system's",
		"locked":         "rows that other transactions hold are passed over, where others write meanwhile",
		"path":           "a file has a path",
		"place":          "on a cluster the calls about a queue go to one node",
		"prepared":       "statements are prepared for each connection",
		"rows":           "columns are read by scanners of database/sql",
		"session":        "one transaction serves many calls",
		"try":            "calls are tried in a transaction that is rolled back",
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

// narrowWrappers change or measure the calls of a dibs.Store, and are no whole database; and why. All other wrappers hold
// an admin.Database or a dibs.Database, and so do what the store does besides.
var narrowWrappers = map[string]string{
	"internal/lab/history.wrappedStore": "it serves stores of adopted tables, and wrapped adds the rest of a database",
	"metrics.observedStore":             "observedService and observedDatabase add the rest of a database",
	"otel.tracedStore":                  "tracedService and tracedDatabase add the rest of a database",
}

// A wrapper of a store must do all that the store does. So each interface that code asks a store for is a part of
// dibs.Database, and a wrapper holds that: the compiler sees then that nothing is lost.
func TestTidyWrappersDoAllThatStoresDo(t *testing.T) {
	t.Parallel()
	interfaces, parts := map[string]bool{}, map[string]bool{"Store": true, "Database": true, "Tx": true}
	holders, claimers := map[string]bool{}, map[string]bool{} // types with a field of type dibs.Store, and those with a Claim
	asked := map[string]string{}                              // interfaces that code asks for, and a file that does
	for name, file := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		for node := range ast.Preorder(file.syntax) {
			switch node := node.(type) {
			case *ast.TypeAssertExpr:
				asked[typeName(node.Type)] = name
			case *ast.CaseClause:
				for _, each := range node.List {
					asked[typeName(each)] = name
				}
			case *ast.FuncDecl:
				if node.Recv != nil && node.Name.Name == "Claim" {
					claimers[dir+"."+typeName(node.Recv.List[0].Type)] = true
				}
			case *ast.TypeSpec:
				switch declared := node.Type.(type) {
				case *ast.InterfaceType:
					interfaces[node.Name.Name] = interfaces[node.Name.Name] || dir == "."
					for _, f := range declared.Methods.List {
						parts[typeName(f.Type)] = parts[typeName(f.Type)] || dir == "." && node.Name.Name == "Database"
					}
				case *ast.StructType:
					for _, f := range declared.Fields.List {
						s, is := f.Type.(*ast.SelectorExpr)
						holders[dir+"."+node.Name.Name] = holders[dir+"."+node.Name.Name] || is && typeName(s.X) == "dibs" && s.Sel.Name == "Store"
					}
				}
			}
		}
	}
	for name, file := range asked {
		if interfaces[name] && !parts[name] {
			t.Errorf("%s asks a store whether it is a %s: make that a part of dibs.Database, else wrappers lose it", file, name)
		}
	}
	for name := range claimers {
		if holders[name] != (narrowWrappers[name] != "") {
			t.Errorf("%s: a wrapper holds a dibs.Database or an admin.Database, or is in narrowWrappers, with the reason", name)
		}
	}
}

// typeName is the name of a type without its package, or nothing.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	}
	return ""
}
