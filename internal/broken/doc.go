// Package broken keeps faults: patches of the stores' real source, each of which
// breaks one promise. Its test builds the stores with each patch laid over them
// (go test -overlay), or once for all patches of SQL statements, and demands that a
// named test fails. So the tests of dibs are
// tested themselves, production code needs no hook for it, and docs/broken.md can
// say which test stands behind which promise.
//
// A patch that no longer fits the source fails the test: variants cannot rot.
package broken

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variant is one fault.
type Variant struct {
	Name  string // in docs/broken.md and for go test -run
	Fault string // what is broken
	Harm  string // what a user would suffer
	In    []Patch
	// Untortured is why half a minute of dibs torture does not find it; empty: it does.
	Untortured string
}

// Patch breaks one database's store.
type Patch struct {
	Store  string // the folder: postgres or sqlite
	Caught string // the test of that folder that must fail: TestName/subtest, as go test -run takes it but with spaces
	Edits  []Edit
}

// Edit replaces a text that a file holds exactly once.
type Edit struct {
	File string // in the store's folder
	Old  string
	New  string
}

// Variants lists all faults.
func Variants() []Variant {
	return slices.Concat(claimVariants, finishVariants, timeVariants, limitVariants, otherVariants)
}

// patched returns the files that the edits change, by their names in the store's folder.
func (p Patch) patched(root string) (map[string]string, error) {
	text := map[string]string{}
	for _, e := range p.Edits {
		if _, ok := text[e.File]; !ok {
			b, err := os.ReadFile(filepath.Join(root, p.Store, e.File))
			if err != nil {
				return nil, err
			}
			text[e.File] = string(b)
		}
		if n := strings.Count(text[e.File], e.Old); n != 1 {
			return nil, fmt.Errorf("%s/%s holds this %d times, want once:\n%s", p.Store, e.File, n, e.Old)
		}
		text[e.File] = strings.Replace(text[e.File], e.Old, e.New, 1)
	}
	return text, nil
}

// Overlay writes the patched files into dir, and a file for -overlay that lays them
// over the module at root; it returns that file's name. All paths must be absolute.
func (p Patch) Overlay(root, dir string) (string, error) {
	files, err := p.patched(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replace[filepath.Join(root, p.Store, name)] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// folderEnv names the folder of the statements of a store patched with fromFolder.
const folderEnv = "DIBS_BROKEN_FOLDER"

// fromFolder are no faults: they make stores read statements and migrations from a
// folder, so that one program runs with all patches that are of these alone.
var fromFolder = []Patch{
	{Store: "postgres", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", "sqlFiles.ReadFile(name)", readFile + "name)"},
		{"migrate.go", importEmbed, importEmbed + importOS},
		{"migrate.go", "migrationFiles.ReadFile(name)", readFile + "name)"},
	}},
	{Store: "sqlite", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", `files.ReadFile("sql/" + `, readFile + `"sql/" + `},
		{"statements.go", `files.ReadFile("migrations/" + `, readFile + `"migrations/" + `},
	}},
}

const (
	importEmbed = "\t\"embed\"\n"
	importOS    = "\t\"os\"\n"
	readFile    = `os.ReadFile(os.Getenv("` + folderEnv + `") + "/" + `
)

// statementsOnly reports whether a folder can hold all of the patch.
func (p Patch) statementsOnly() bool {
	return !slices.ContainsFunc(p.Edits, func(e Edit) bool { return filepath.Ext(e.File) != ".sql" })
}

// folder fills dir with the store's statements and migrations, patched.
func (p Patch) folder(root, dir string) error {
	files, err := p.patched(root)
	if err != nil {
		return err
	}
	for _, sub := range []string{"sql", "migrations"} {
		from := os.DirFS(filepath.Join(root, p.Store, sub))
		if err := os.CopyFS(filepath.Join(dir, sub), from); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
