// Lint is what "go vet" runs with -vettool: vet's own analyzers and those of staticcheck, errorlint and errcheck, in one
// pass. So Go's cache keeps what they found in packages that a change does not reach.
package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	all := append(vet.Suite, errorlint.NewAnalyzer(), unchecked(), unneeded())
	for _, each := range slices.Concat(staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers) {
		if isDefault(each) {
			all = append(all, each.Analyzer)
		}
	}
	unitchecker.Main(all...)
}

// isDefault reports whether staticcheck uses an analyzer unless it is told otherwise.
func isDefault(a *lint.Analyzer) bool { return !a.Doc.NonDefault }

// unchecked is errcheck for what is not a test. A deferred Close or Rollback is the end of something that was only read or
// has failed already: what was written is closed by hand, with its error. Everything else says `_ =` and why.
func unchecked() *analysis.Analyzer {
	a := *errcheck.Analyzer
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		type line struct {
			file string
			line int
		}
		at := func(pos token.Pos) line {
			p := pass.Fset.Position(pos)
			return line{p.Filename, p.Line}
		}
		deferred := map[line]bool{}
		for _, f := range pass.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				if d, ok := n.(*ast.DeferStmt); ok {
					deferred[at(d.Pos())] = true
				}
				return true
			})
		}
		own := *pass
		own.Report = func(d analysis.Diagnostic) {
			if where := at(d.Pos); !deferred[where] && !strings.HasSuffix(where.file, "_test.go") {
				pass.Report(d)
			}
		}
		return run(&own)
	}
	return &a
}

// unneeded is staticcheck's search for unused code. That is no analyzer which reports: its result is for a program that has
// seen a package with its tests and without. Vet shows a package with its tests, if there are any, so this is all of it.
func unneeded() *analysis.Analyzer {
	found := unused.Analyzer.Analyzer
	return &analysis.Analyzer{
		Name:     "unused",
		Doc:      found.Doc,
		Requires: []*analysis.Analyzer{found},
		Run: func(pass *analysis.Pass) (any, error) {
			files := map[string]*token.File{}
			for _, f := range pass.Files {
				file := pass.Fset.File(f.FileStart)
				files[file.Name()] = file
			}
			for _, o := range pass.ResultOf[found].(unused.Result).Unused {
				if file := files[o.Position.Filename]; file != nil {
					pass.Reportf(file.Pos(o.Position.Offset), "%s %s is unused", o.Kind, o.Name)
				}
			}
			return nil, nil
		},
	}
}
