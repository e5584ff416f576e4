// Package broken holds faults: patches of the stores' source, each of which breaks one
// promise. Its test builds the stores with each patch (go test -overlay), or once for all
// patches of SQL statements, and demands that a named test fails. So the tests of dibs are
// tested too, production code needs no hooks for that, and docs/broken.md names the test
// that catches each fault.
//
// A patch that no longer fits the source fails the test, so patches stay up to date.
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
	Name    string // its name in docs/broken.md and for go test -run
	Fault   string // what is broken
	Harm    string // the consequence for a user
	Patches []Patch
	AtNight bool // only make night tries it: it needs a build of its own, and at worst makes jobs late
	// Untortured says why half a minute of dibs torture does not find the fault. It is empty
	// if the torture finds it.
	Untortured string
}

// Patch breaks one database's store.
type Patch struct {
	Store    string // the store's folder, postgres or sqlite; "." is the worker's
	CaughtBy string // the store's test that must fail: TestName/subtest, with spaces for underscores
	Edits    []Edit
}

// Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File string // its path in the store's folder
	Old  string
	New  string
}

// Variants lists all faults.
func Variants() []Variant {
	return slices.Concat(claimVariants, finishVariants, timeVariants, limitVariants, otherVariants)
}

// apply returns the files that the edits change, by their paths in the store's folder.
func (p Patch) apply(root string) (map[string]string, error) {
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
			return nil, fmt.Errorf("%s/%s contains this text %d times, want once:\n%s", p.Store, e.File, n, e.Old)
		}
		text[e.File] = strings.Replace(text[e.File], e.Old, e.New, 1)
	}
	return text, nil
}

// Overlay writes the patched files into dir, and a file for -overlay that puts them in
// place of those of the module at root. It returns that file's name. All paths must be
// absolute.
func (p Patch) Overlay(root, dir string) (string, error) {
	files, err := p.apply(root)
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

// envFolder is the environment variable for the folder that patched stores read.
const envFolder = "DIBS_BROKEN_FOLDER"

// fromFolder holds no faults. Its patches make stores read statements and migrations from a
// folder, so that one program can run with all patches that change only these.
var fromFolder = []Patch{
	{Store: "postgres", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", `sqlFiles.ReadFile("sql/" + `, readFile + `"sql/" + `},
		{"migrate.go", importEmbed, importEmbed + importOS},
		{"migrate.go", "migrationFiles.ReadFile(name)", readFile + "name)"},
	}},
	{Store: ".", Edits: nil},
	{Store: "sqlite", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", `files.ReadFile("sql/" + `, readFile + `"sql/" + `},
		{"statements.go", `files.ReadFile("migrations/" + `, readFile + `"migrations/" + `},
	}},
}

const (
	importEmbed = "\t\"embed\"\n"
	importOS    = "\t\"os\"\n"
	readFile    = `os.ReadFile(os.Getenv("` + envFolder + `") + "/" + `
)

// statementsOnly reports whether the patch changes only statements and migrations.
func (p Patch) statementsOnly() bool {
	return !slices.ContainsFunc(p.Edits, func(e Edit) bool { return filepath.Ext(e.File) != ".sql" })
}

// writeFolder fills dir with the store's patched statements and migrations.
func (p Patch) writeFolder(root, dir string) error {
	files, err := p.apply(root)
	if err != nil {
		return err
	}
	for _, sub := range []string{"sql", "migrations"} {
		if p.Store == "." {
			break
		}
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
