//go:build unix

package dibs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// TestTheHowToPagesWork does what docs/howto says: its shell is run, its Go is copied from
// examples and tests that run, and what starts a worker starts one that stops well.
func TestTheHowToPagesWork(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	pages, err := filepath.Glob("docs/howto/*.md")
	if err != nil || len(pages) < 6 {
		t.Fatalf("found %v, %v", pages, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(needs.Build(t, "./cmd/dibs"))
	examples, clients := exampleCode(t), httpClients(t)
	for _, page := range pages {
		dir := module(t, here)
		for _, m := range block.FindAllStringSubmatch(read(t, page), -1) {
			language, text := m[1], m[2]
			if filepath.Base(page) == "sql-sqlite.md" && language != "sh" {
				language += " of SQLite"
			}
			switch language {
			case "go":
				if !strings.Contains(examples, unindented(text)) {
					t.Errorf("%s: no example has this code:\n%s", page, text)
				}
			case "js", "python":
				if !strings.Contains(clients, text) {
					t.Errorf("%s: no client in examples/http has this code:\n%s", page, text)
				}
			case "nginx", "caddyfile", "text": // no test has these programs, and nothing runs a message
			case "sh":
				if strings.Contains(clients, text) { // the tests of examples run it
					continue
				}
				command(t, dir, "sh", "-euc", "export PATH="+bin+":$PATH DIBS_DB=sqlite:jobs.db; "+text)
			case "sql": // TestThePageAboutSQLWorks, TestThePageAboutTriggersWorks and TestThePageAboutTheInboxWorks run it
			case "sql of SQLite", "python of SQLite":
				program := map[string]string{"sql of SQLite": "sqlite3 -bail jobs.db", "python of SQLite": "python3 -"}[language]
				if _, err := exec.LookPath(strings.Fields(program)[0]); err != nil {
					t.Logf("%s: %v", page, err)
					continue
				}
				command(t, dir, "sh", "-euc", program+" <<'END'\n"+text+"\nEND")
			case "yaml": // TestRiversTableIsAdopted works with it; promtool reads the other in the tests of deploy
				if !strings.Contains(text, "scrape_configs") && !strings.Contains(read(t, "bench/adopt_test.go"), "`\n"+text+"`") {
					t.Errorf("%s: bench/adopt_test.go has another mapping", page)
				}
			case "ini":
				runUnit(t, bin, text)
			case "dockerfile":
				runDockerfile(t, bin, text)
			default:
				t.Errorf("%s has a block of language %q, which no test looks at", page, language)
			}
		}
	}
}

// module is a stranger's module beside dibs, with a program that imports dibs/otel.
func module(t *testing.T, here string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "app")
	write(t, dir+"/main.go", "package main\n\nimport _ \"github.com/dibs-queue/dibs/otel\"\n\nfunc main() {}\n")
	write(t, dir+"/go.mod", "module example.com/app\n\ngo 1.26.0\n")
	write(t, dir+"/go.sum", read(t, "otel/go.sum")) // go asks no server for checksums that it has
	if err := os.Symlink(here, filepath.Join(filepath.Dir(dir), "dibs")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// exampleCode is all Go that a page may copy from: programs and tests in examples, and
// examples of the packages.
func exampleCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, ".go") {
		if strings.HasPrefix(name, "examples/") || strings.HasPrefix(filepath.Base(name), "example_") {
			all.WriteString(unindented(read(t, name)))
		}
	}
	return all.String()
}

// runUnit runs the worker of a systemd unit, and compares the unit's time limits.
func runUnit(t *testing.T, bin, unit string) {
	t.Helper()
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit has no %s:\n%s", name, unit)
		}
		return m[1]
	}
	args := strings.Fields(setting("ExecStart"))
	wait, err := time.ParseDuration(args[slices.Index(args, "--shutdown")+1])
	if err != nil {
		t.Fatal(err)
	}
	limit, err := time.ParseDuration(setting("TimeoutStopSec") + "s")
	if args[1] == "serve" { // it starts no programs
		if err != nil || limit < wait+5*time.Second {
			t.Errorf("the unit stops its server after %v (%v), which may take %v:\n%s", limit, err, wait, unit)
		}
		return
	}
	if err != nil || limit < wait+5*time.Second || setting("KillMode") != "mixed" {
		t.Errorf("the unit stops its worker after %v (%v), which may take %v and 5s:\n%s", limit, err, wait, unit)
	}
	stopsWell(t, bin, args)
}

// runDockerfile tries how a Dockerfile builds the command, without building it once more, and
// starts the worker that it starts.
func runDockerfile(t *testing.T, bin, text string) {
	t.Helper()
	build := regexp.MustCompile(`(?m)^RUN (.*) -o /dibs (.*)$`).FindStringSubmatch(text)
	entry := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(text)
	if build == nil || entry == nil {
		t.Fatalf("it builds or starts nothing:\n%s", text)
	}
	command(t, ".", "sh", "-euc", build[1]+" -n -o "+bin+"/dibs "+build[2])
	var args []string
	if err := json.Unmarshal([]byte(entry[1]), &args); err != nil {
		t.Fatalf("%s: %v", entry[1], err)
	}
	stopsWell(t, bin, args)
}

// stopsWell starts a worker by the words of a unit or Dockerfile, with a program that is
// here, lets it do a job, and ends it by SIGTERM.
func stopsWell(t *testing.T, bin string, args []string) {
	t.Helper()
	dir := t.TempDir()
	script := "export DIBS_DB=sqlite:jobs.db PATH=" + bin + ":$PATH; "
	command(t, dir, "sh", "-euc", script+`dibs enqueue emails '"hello"'`)
	end := slices.Index(args, "--")
	if end < 0 || filepath.Base(args[0]) != "dibs" {
		t.Fatalf("%q runs no program", args)
	}
	worker := exec.CommandContext(t.Context(), bin+"/dibs", append(slices.Clone(args[1:end+1]), "cat")...)
	worker.Dir = dir
	worker.Env = append(os.Environ(), "DIBS_DB=sqlite:jobs.db")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if out := command(t, dir, "sh", "-euc", script+"dibs ls emails --state completed"); strings.Contains(out, "hello") {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%q does no job", args)
			break
		}
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("%q ends with %v", args, err)
	}
}
