package dibs_test

import (
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wideInterfaces may have more than 7 methods, for a reason.
var wideInterfaces = map[string]string{
	"admin/Admin":       "what an operator does with jobs and with queues; who needs less names what they need",
	"Database":          "what a service calls beside a worker: it is for programs that serve either database",
	"adopted/database":  "what differs between databases under an adopted table, beside a struct of texts",
	"interleave/Bench":  "what a schedule of statements needs of a database, to take it apart and put it back",
	"Store":             "what a worker needs of a database, from finding out which queues have jobs to its entry in the register",
	"sqlite/sqliteConn": "what database/sql may ask of a connection, all of which has to be passed on",
}

// rootNames is how many functions and types the root package may export. Before it grows, look
// for what can be hidden.
const rootNames = 68

func TestTidyInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 7
	var wide []string
	for name, file := range goFiles(t) {
		for node := range ast.Preorder(file.syntax) {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || strings.HasSuffix(name, "_test.go") {
				continue
			}
			if i, ok := spec.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > most {
				full := strings.TrimPrefix(path.Base(path.Dir(name))+"/"+spec.Name.Name, "./")
				if wide = append(wide, full); wideInterfaces[full] == "" {
					t.Errorf("%s: interface %s has %d methods, the limit is %d: make it smaller, or give a reason in wideInterfaces", name, full, i.Methods.NumFields(), most)
				}
			}
		}
	}
	for name := range wideInterfaces {
		if !slices.Contains(wide, name) {
			t.Errorf("%s has a reason in wideInterfaces and needs none", name)
		}
	}
}

func TestTidyRootExportsFewNames(t *testing.T) {
	t.Parallel()
	var names []string
	for name, file := range goFiles(t) {
		if path.Dir(name) != "." || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range file.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						names = append(names, s.Name.Name)
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
	if slices.Sort(names); len(names) != rootNames {
		t.Errorf("the root package exports %d functions and types, rootNames says %d: %s", len(names), rootNames, strings.Join(names, " "))
	}
}

// Tests that docs/howto/testing.md offers to copy compile in the reader's own module.
func TestTidyTestsToCopyImportNothingInternal(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		if name != "examples/service/service_test.go" && path.Dir(name) != "examples/emails" {
			continue
		}
		for _, spec := range file.syntax.Imports {
			if strings.Contains(spec.Path.Value, "/dibs/internal/") {
				t.Errorf("%s imports %s, which its readers cannot", name, spec.Path.Value)
			}
		}
	}
}

// A program that somebody built here and committed along with the source stays in
// every clone for ever.
func TestTidyNoLargeFileIsCommitted(t *testing.T) {
	t.Parallel()
	const most = 256 << 10 // bytes
	for _, name := range committed(t) {
		if file, err := os.Stat(name); err == nil && file.Size() > most {
			t.Errorf("%s has %d bytes, at most %d are allowed", name, file.Size(), most)
		}
	}
}

// committed lists the files that git knows. A copy of the source without git has no others.
func committed(t *testing.T) (names []string) {
	t.Helper()
	if _, err := os.Stat(".git"); err == nil {
		listed, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00")
	}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
