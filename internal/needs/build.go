package needs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds the program of a package, such as ../cmd/dibs, and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	Sources(t)
	program := filepath.Join(t.TempDir(), filepath.Base(dir))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// everySource lists, for each package, its files and those that it embeds.
const everySource = `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .TestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}`

// Sources makes the result of a test depend on all source files of the module. A test that builds
// programs calls it: the go command keeps results of tests, and knows of a test's imports and of the
// files and folders that it reads, but not of what other programs read.
func Sources(t testing.TB) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", everySource, "./...")
	list.Dir = strings.TrimSpace(string(root))
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		if dir := filepath.Dir(file); file != "" && dir != list.Dir && !read[dir] { // the module's own folder has others, too, such as .git
			read[dir] = true
			_, err = os.ReadDir(dir)
		} else if dir == list.Dir {
			_, err = os.Stat(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
