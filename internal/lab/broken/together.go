package broken

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// envFault is the environment variable for the name of the fault that a program has, if it is one of Go code.
const envFault = "DIBS_BROKEN_FAULT"

// env is what the environment of a program with all faults needs in order to have this one: the folder holds
// the patched statements.
func (p Patch) env(fault, folder string) []string {
	return []string{envFault + "=" + p.of(fault), envFolder + "=" + folder}
}

// The name of a patch has its store, too: stores share files, so a program has the patches of several stores.
func (p Patch) of(fault string) string { return fault + "/" + p.Store }

// stores are the packages that variants patch.
var stores = []string{"postgres", "sqlite", "mysql", "."}

// overlayOfAll writes into dir a file for -overlay, and returns its name. A program that is built with it has the
// faults of all variants: the environment says which (Patch.env). The program has each function that a patch
// changes twice, as it was and patched: the first calls the second if the environment asks for the fault. All
// paths must be absolute.
func overlayOfAll(root, dir string) (string, error) {
	all, err := together(root)
	if err != nil {
		return "", err
	}
	return overlay(dir, all)
}

// together returns the Go files that have the faults of all variants, by their paths.
func together(root string) (map[string]string, error) {
	files := map[string]string{}
	plain := map[string][]Edit{}
	for _, p := range fromFolder {
		texts, err := p.apply(root)
		if err != nil {
			return nil, err
		}
		plain[p.Store] = p.Edits
		for name, text := range texts {
			files[filepath.Join(root, p.Store, name)] = text
		}
	}
	insert := map[string][]insertion{}
	packages := map[string]string{} // the names of packages that have faults, by folder
	for _, v := range Variants() {
		for _, p := range v.Patches {
			patched, err := Patch{Store: p.Store, Edits: slices.Concat(plain[p.Store], p.Edits)}.apply(root)
			if err != nil {
				return nil, err
			}
			for name, text := range patched {
				path := filepath.Join(root, p.Store, name)
				if filepath.Ext(path) != ".go" || text == files[path] {
					continue
				}
				if _, ok := files[path]; !ok {
					b, err := os.ReadFile(path)
					if err != nil {
						return nil, err
					}
					files[path] = string(b)
				}
				of, more, err := besides(files[path], text, p.of(v.Name))
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", v.Name, path, err)
				}
				packages[filepath.Dir(path)] = of
				insert[path] = append(insert[path], more...)
			}
		}
	}
	for path, list := range insert {
		files[path] = inserted(files[path], list)
	}
	for folder, name := range packages {
		files[filepath.Join(folder, "broken_fault.go")] = "package " + name + "\n\nimport \"os\"\n\nvar brokenFault = os.Getenv(\"" + envFault + "\")\n"
	}
	return files, nil
}

// insertion is a text, and the place in a file where it goes.
type insertion struct {
	at   int
	text string
}

func inserted(file string, list []insertion) string {
	slices.SortStableFunc(list, func(a, b insertion) int { return a.at - b.at })
	var out strings.Builder
	done, had := 0, map[insertion]bool{}
	for _, in := range list {
		out.WriteString(file[done:in.at])
		if done = in.at; !had[in] { // two patches may import the same package
			out.WriteString(in.text)
		}
		had[in] = true
	}
	out.WriteString(file[done:])
	return out.String()
}

// besides compares a file with a patched one, and returns the file's package and what to insert into it:
// the functions that the patch changed, and calls of them.
func besides(file, patched, fault string) (pkg string, list []insertion, err error) {
	old, err := parsed(file)
	if err != nil {
		return "", nil, err
	}
	changed, err := parsed(patched)
	if err != nil {
		return "", nil, err
	}
	if !maps.Equal(old.rest, changed.rest) {
		return "", nil, errors.New("the patch changes what is outside of functions, or adds or removes one")
	}
	top := old.name.End() - 1 // positions begin at 1
	for path := range changed.imports {
		if !old.imports[path] {
			list = append(list, insertion{int(top), "\n\nimport " + path})
		}
	}
	for name, was := range old.functions {
		is := changed.functions[name]
		if is.text == was.text {
			continue
		}
		twin := was.decl.Name.Name + "Fault" + strings.NewReplacer("-", "_", "/", "_", ".", "").Replace(fault)
		call, err := callOf(was.decl, twin)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
		at := is.decl.Name.Pos() - is.decl.Pos()
		list = append(list,
			insertion{int(was.decl.Body.Lbrace), fmt.Sprintf("\n\tif brokenFault == %q {\n\t\t%s\n\t}\n", fault, call)},
			insertion{len(file), "\n" + is.text[:at] + twin + is.text[int(at)+len(is.decl.Name.Name):] + "\n"})
	}
	if len(list) == 0 {
		return "", nil, errors.New("the patch changes no function")
	}
	return old.name.Name, list, nil
}

// goFile is a file, and its parts with their texts.
type goFile struct {
	name      *ast.Ident
	imports   map[string]bool // paths, in quotes
	functions map[string]function
	rest      map[string]bool // all other declarations
}

type function struct {
	decl *ast.FuncDecl
	text string
}

func parsed(text string) (goFile, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return goFile{}, err
	}
	f := goFile{syntax.Name, map[string]bool{}, map[string]function{}, map[string]bool{}}
	for _, d := range syntax.Decls {
		part := text[d.Pos()-1 : d.End()-1]
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				t := d.Recv.List[0].Type
				name = text[t.Pos()-1:t.End()-1] + "." + name
			}
			f.functions[name] = function{d, part}
			f.rest["func "+name] = true
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				f.rest[part] = true
			}
		}
	}
	for _, i := range syntax.Imports {
		f.imports[i.Path.Value] = true
	}
	return f, nil
}

// callOf is a statement by which a function hands all that it was given to its twin.
func callOf(f *ast.FuncDecl, twin string) (string, error) {
	var args []string
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			return "", errors.New("a parameter has no name")
		}
		for _, name := range field.Names {
			arg := name.Name
			if arg == "_" {
				return "", errors.New("a parameter has no name")
			}
			if _, many := field.Type.(*ast.Ellipsis); many {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 {
			return "", errors.New("the receiver has no name")
		}
		twin = f.Recv.List[0].Names[0].Name + "." + twin
	}
	call := twin + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "\n\t\treturn", nil
	}
	return "return " + call, nil
}
