// Package broken keeps faults: patches of the stores' real source, each of which
// breaks one promise. Its test builds the stores with each patch laid over them
// (go test -overlay) and demands that a named test fails. So the tests of dibs are
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

// Overlay writes the patched files into dir, and a file for -overlay that lays them
// over the module at root; it returns that file's name. All paths must be absolute.
func (p Patch) Overlay(root, dir string) (string, error) {
	text := map[string]string{}
	for _, e := range p.Edits {
		file := filepath.Join(root, p.Store, e.File)
		if _, ok := text[file]; !ok {
			b, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			text[file] = string(b)
		}
		if n := strings.Count(text[file], e.Old); n != 1 {
			return "", fmt.Errorf("%s/%s holds this %d times, want once:\n%s", p.Store, e.File, n, e.Old)
		}
		text[file] = strings.Replace(text[file], e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for file, patched := range text {
		replace[file] = filepath.Join(dir, strings.ReplaceAll(file[len(root)+1:], string(filepath.Separator), "_"))
		if err := os.WriteFile(replace[file], []byte(patched), 0o600); err != nil {
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
