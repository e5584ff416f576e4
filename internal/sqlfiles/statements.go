// Package sqlfiles reads the files of a database's folder: its statements in sql/, and its schema in migrations/.
package sqlfiles

import (
	"io/fs"
	"slices"
	"strings"
)

// Statement is the text of sql/name.sql without its header, which a database need not parse. It panics for a name
// without a file, which is an error of this module.
func Statement(files fs.FS, name string) string {
	text := read(files, "sql/"+name+".sql")
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// Names lists the statements of sql/.
func Names(files fs.FS) []string {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(name, "sql/"), ".sql")
	}
	return names
}

func read(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Parts keeps or drops the marked parts of a statement. One begins with a line such as
// "-- for groups {" and ends with "-- }". The line "-- for groups, as above" stands for the same
// part again.
func Parts(text string, keep func(mark string) bool) string {
	if !strings.Contains(text, "-- for ") {
		return text
	}
	var out strings.Builder
	marked := map[string]string{}
	for lines := strings.SplitAfter(text, "\n"); len(lines) > 0; {
		mark := strings.TrimSpace(lines[0])
		begun, begins := strings.CutSuffix(mark, " {")
		repeated, repeats := strings.CutSuffix(mark, ", as above")
		n, part := 1, lines[0]
		switch isMark := strings.HasPrefix(mark, "-- for "); {
		case isMark && begins:
			n += slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "-- }" })
			part = strings.Join(lines[:n], "")
			marked[begun] = part
		case isMark && repeats:
			part = marked[repeated]
		default:
			begins, repeats = false, false
		}
		if !begins && !repeats || keep(mark) {
			out.WriteString(part)
		}
		lines = lines[n:]
	}
	return out.String()
}
