package dibs_test

import (
	"go/ast"
	"path"
	"slices"
	"testing"
)

// maxState is how many unexported fields a struct may have.
const maxState = 20

// largeState are structs with more unexported fields than maxState. They may only become smaller.
var largeState = map[string]int{
	"postgres.Store":                       25,
	"postgres.claimedRow":                  24, // one for each column
	"cmd/dibs/internal/runner.lineProcess": 24,
	"cmd/dibs/internal/daemon.workFlags":   22, // one for each flag
	"..held":                               22,
}

func TestTidyStructsHoldLittleState(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		for node := range ast.Preorder(file.syntax) {
			if node, ok := node.(*ast.TypeSpec); ok {
				s, _ := node.Type.(*ast.StructType)
				full := path.Dir(name) + "." + node.Name.Name
				if n, most := unexported(s), max(maxState, largeState[full]); n > most {
					t.Errorf("%s: %s has %d unexported fields, at most %d are allowed: put those together that change together", name, full, n, most)
				}
			}
		}
	}
}

func unexported(s *ast.StructType) (n int) {
	if s == nil {
		return 0
	}
	for _, f := range s.Fields.List {
		n += len(slices.DeleteFunc(slices.Clone(f.Names), func(name *ast.Ident) bool { return name.IsExported() }))
	}
	return n
}
