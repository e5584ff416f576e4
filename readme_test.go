package dibs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/storetest"
)

// The README shows only what works: its Go is copied from the
// examples, which have tests of their own, its shell is run here, and its table of
// databases is the one that the conformance suite reads.

var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// blocks lists the README's blocks in one language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	for _, m := range block.FindAllStringSubmatch(read(t, "README.md"), -1) {
		switch m[1] {
		case language:
			found = append(found, m[2])
		case "go", "sh", "python":
		default:
			t.Errorf("README.md has a block of language %q, which no test looks at", m[1])
		}
	}
	if len(found) == 0 {
		t.Fatalf("README.md has no block of language %q", language)
	}
	return found
}

func TestReadmeGoIsCopiedFromTheExamples(t *testing.T) {
	t.Parallel()
	var examples strings.Builder
	for _, name := range files(t, ".go") {
		if strings.HasPrefix(name, "examples/") && !strings.HasSuffix(name, "_test.go") {
			examples.WriteString(unindented(read(t, name)))
		}
	}
	for _, code := range blocks(t, "go") {
		if !strings.Contains(examples.String(), unindented(code)) {
			t.Errorf("no example has this code:\n%s", code)
		}
	}
}

func TestReadmePythonIsCopiedFromTheExamples(t *testing.T) {
	t.Parallel()
	example := read(t, "examples/workers/worker.py")
	for _, code := range blocks(t, "python") {
		if !strings.Contains(example, code) {
			t.Errorf("the example has no such code:\n%s", code)
		}
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "")
}

// runElsewhere are commands that take too long here: tests of cmd/dibs run the
// demo and torture, and .ci/run runs make test.
var runElsewhere = regexp.MustCompile(`(?m)^(go run \./cmd/dibs (?:demo|torture)|make test)( .*)?\n`)

// TestReadmeShellRuns runs the README's shell in a stranger's module beside this
// one, with the dibs command installed, and then builds the README's program there.
func TestReadmeShellRuns(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(read(t, ".ci/run"), "\nexec make test\n") {
		t.Error(".ci/run must run make test, as the README says")
	}
	dir := t.TempDir()
	app, bin := filepath.Join(dir, "app"), filepath.Dir(needs.Build(t, "./cmd/dibs"))
	if err := os.Symlink(here, filepath.Join(dir, "dibs")); err != nil {
		t.Fatal(err)
	}
	write(t, app+"/main.go", blocks(t, "go")[0])
	write(t, app+"/go.mod", "module example.com/app\n\ngo 1.26.0\n")
	write(t, app+"/go.sum", read(t, "go.sum")) // go asks no server for checksums that it has
	clients := httpClients(t)
	for _, script := range blocks(t, "sh") {
		if strings.Contains(clients, script) { // the tests of examples run it
			continue
		}
		script = runElsewhere.ReplaceAllString(script, "")
		out := command(t, app, "sh", "-euc", `PATH=`+bin+`:$PATH; `+script)
		if strings.Contains(script, "dibs work") && !strings.Contains(out, "  ./main.go") {
			t.Errorf("the jobs of\n%s\nleft no result:\n%s", script, out)
		}
	}
	command(t, app, "go", "build", "-o", filepath.Join(dir, "program"), ".")
}

// httpClients are the programs of examples/http.
func httpClients(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, ".sh", ".py", ".mjs") {
		if strings.HasPrefix(name, "examples/http/") {
			all.WriteString(read(t, name))
		}
	}
	return all.String()
}

func TestReadmeTableIsTheOneThatTheSuiteReads(t *testing.T) {
	t.Parallel()
	if table := storetest.Table(storetest.PostgreSQL, storetest.SQLite); !strings.Contains(read(t, "README.md"), "\n\n"+table+"\n") {
		t.Errorf("README.md's table of databases must be\n%s", table)
	}
}

// TestStatesNameStatementsThatExist reads the table of transitions in docs/states.md.
func TestStatesNameStatementsThatExist(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^\|[^|]*\|[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|$`)
	name := regexp.MustCompile("`(\\w+)`")
	found := 0
	for _, cells := range row.FindAllStringSubmatch(read(t, "docs/states.md"), -1) {
		for i, db := range []string{"postgres", "sqlite"} {
			for _, m := range name.FindAllStringSubmatch(cells[i+1], -1) {
				found++
				if _, err := os.Stat(db + "/sql/" + m[1] + ".sql"); err != nil {
					t.Errorf("docs/states.md: %v", err)
				}
			}
		}
	}
	if found == 0 {
		t.Error("docs/states.md names no statement")
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestContributingSaysHowLargeADatabaseIs keeps the sizes of CONTRIBUTING.md true, within a tenth.
func TestContributingSaysHowLargeADatabaseIs(t *testing.T) {
	t.Parallel()
	text := strings.Join(strings.Fields(strings.ReplaceAll(read(t, "CONTRIBUTING.md"), ",", "")), " ")
	size := func(folder string) (lines int) {
		for _, name := range files(t, ".go") {
			if filepath.Dir(name) == folder && !strings.HasSuffix(name, "_test.go") {
				lines += strings.Count(read(t, name), "\n")
			}
		}
		return lines
	}
	schema := func(folder string) (lines int) {
		for _, name := range files(t, ".sql") {
			if path.Dir(name) == folder+"/migrations" {
				lines += strings.Count(read(t, name), "\n")
			}
		}
		return lines
	}
	for pattern, want := range map[string][]int{
		`Go without tests \| (\d+) lines \| (\d+) lines`:       {size("sqlite"), size("postgres")},
		"in `internal/rowstore` \\| (\\d+) lines":              {size("internal/rowstore")},
		"in `internal/reads` \\| (\\d+) lines":                 {size("internal/reads")},
		"statements in `sql/` \\| (\\d+) \\| (\\d+)":           {len(statements(t, "sqlite")), len(statements(t, "postgres"))},
		"schema in `migrations/` \\| (\\d+) lines \\| (\\d+)":  {schema("sqlite"), schema("postgres")},
		"`internal/checks` (\\d+) lines":                       {size("internal/checks")},
		`The suite has (\d+) cases in (\d+) lines`:             {len(storetest.Names()), size("storetest")},
		`in \[sqlite/store_test.go\]\([a-z/_.]*\) (\d+) lines`: {strings.Count(read(t, "sqlite/store_test.go"), "\n")},
	} {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("CONTRIBUTING.md does not say %s", pattern)
			continue
		}
		for i, n := range want {
			if said, _ := strconv.Atoi(m[i+1]); said*10 < n*9 || said*10 > n*11 {
				t.Errorf("CONTRIBUTING.md says %q, it is %d", m[0], n)
			}
		}
	}
}
