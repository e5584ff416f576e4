package needs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// EnvProgram is the environment variable for the path of the command dibs, which make test builds once for all tests.
const EnvProgram = "DIBS_TEST_PROGRAM"

// Build builds the program of a package, such as ../cmd/dibs, and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	sources(t, dir)
	if built := os.Getenv(EnvProgram); built != "" && strings.HasSuffix(dir, "/cmd/dibs") {
		return built
	}
	program := filepath.Join(t.TempDir(), filepath.Base(dir))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// Files makes the result of a test depend on files that programs read which the test starts, such as scripts.
func Files(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
}

// everySource lists, for each package of this repository, its files and those that it embeds.
const everySource = `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .TestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}`

// Sources makes the result of a test depend on all source files of packages of this module, of their tests, and of
// what both import. A test that builds programs calls it: the go command keeps results of tests, and knows of a
// test's imports and of the files and folders that it reads, but not of what other programs read.
func Sources(t testing.TB, packages ...string) {
	t.Helper()
	sources(t, append([]string{"-test"}, packages...)...)
}

func sources(t testing.TB, args ...string) {
	t.Helper()
	roots, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", everySource}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	folders := strings.Split(strings.TrimSpace(string(roots)), "\n")
	list := strings.Split(string(files), "\n")
	for _, folder := range folders {
		list = append(list, folder+"/go.mod", folder+"/go.sum")
	}
	for _, file := range list {
		file = strings.TrimSpace(file)
		if file == "" || strings.Contains(file, "//") { // the main file of a test program, which go test makes
			continue
		}
		if dir := filepath.Dir(file); dir != folders[0] && !read[dir] { // the module's own folder has others, too, such as .git
			read[dir] = true
			_, err = os.ReadDir(dir)
		} else if !read[dir] {
			_, err = os.Stat(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
