// Package broken holds faults: patches of the stores' source, each of which breaks one
// promise. Its test builds the stores once, with all of them (go test -overlay). With each fault
// a named test must fail. So the tests of dibs are tested too. Production code needs no hooks for
// that. The file testdata/faults.txt lists them, each with the test that catches it.
//
// A patch that no longer fits the source fails the test, so patches stay up to date.
package broken

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variant is one fault.
type Variant struct {
	Name    string // its name in testdata/faults.txt and for go test -run
	Fault   string // what is broken
	Harm    string // the consequence for a user
	Patches []Patch
	// Untortured says why half a minute of dibs torture does not find the fault. It is empty
	// if the torture finds it.
	Untortured string
}

// Patch breaks one database's store.
type Patch struct {
	Store    string // the store's folder, postgres, sqlite or mysql; "." is the worker's
	CaughtBy string // the store's test that must fail: TestName/subtest, with spaces for underscores
	Edits    []Edit
}

// Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File string // its path in the store's folder
	Old  string
	New  string
}

// rows is the path in the folder of sqlite and mysql of the part of the store that does not know which database it is.
const rows = "../internal/rowstore/"

// reads is the path in a store's folder of the calls that only read, which all stores share.
const reads = "../internal/reads/"

// Variants lists all faults.
func Variants() []Variant {
	all := slices.Concat(claimVariants, finishVariants, timeVariants, limitVariants, otherVariants, flowVariants, addVariants, stepVariants, concurrentVariants, mariadbVariants)
	for i, v := range all {
		if p, ok := mariadbPatches[v.Name]; ok {
			all[i].Patches = append(slices.Clip(v.Patches), p)
		}
	}
	return all
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

// Overlay writes into dir a file for -overlay, and returns its name. A program that is built with it has the
// patch. All paths must be absolute.
func (p Patch) Overlay(root, dir string) (string, error) {
	files, err := p.apply(root)
	if err != nil {
		return "", err
	}
	all := map[string]string{}
	for name, text := range files {
		all[filepath.Join(root, p.Store, name)] = text
	}
	return overlay(dir, all)
}

// overlay writes texts into dir, and a file for -overlay that puts them in the place of the files of these paths.
func overlay(dir string, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range texts {
		file := filepath.Join(dir, strconv.Itoa(len(replace))+filepath.Ext(path))
		replace[path] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

// envFolder is the environment variable for the folder that patched stores read.
const envFolder = "DIBS_BROKEN_FOLDER"

// fromFolder holds no faults. Its patches make stores read statements and migrations from a
// folder, so that one program can run with all patches of these.
var fromFolder = []Patch{
	{Store: "postgres", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", embedded, fromEnv + `"/postgres")` + "\n"},
	}},
	{Store: "sqlite", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", embedded, fromEnv + `"/sqlite")` + "\n"},
	}},
	{Store: "mysql", Edits: []Edit{
		{"statements.go", importEmbed, importEmbed + importOS},
		{"statements.go", embedded, fromEnv + `"/mysql")` + "\n"},
	}},
}

const (
	importEmbed = "\t\"embed\"\n"
	importOS    = "\t\"os\"\n"
	embedded    = "var files embed.FS\n"
	fromEnv     = "var embedded embed.FS\n\nvar files = os.DirFS(os.Getenv(\"" + envFolder + "\") + "
)

// writeFolder fills dir with the statements and migrations of all stores. It patches those of the patch's own
// store.
func (p Patch) writeFolder(root, dir string) error {
	for _, f := range fromFolder {
		for _, sub := range []string{"sql", "migrations"} {
			if err := os.CopyFS(filepath.Join(dir, f.Store, sub), os.DirFS(filepath.Join(root, f.Store, sub))); err != nil {
				return err
			}
		}
	}
	files, err := p.apply(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if filepath.Ext(name) != ".sql" {
			continue // Go code is built into the program
		}
		if err := os.WriteFile(filepath.Join(dir, p.Store, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
