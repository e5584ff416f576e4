package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/dibs-queue/dibs/sqlite"
)

// tortured runs dibs torture as a user would. Its temporary files go to temp.
func (c *cli) tortured(temp string, args ...string) (out, errs string, code int) {
	c.T.Helper()
	program, err := os.Executable()
	if err != nil {
		c.T.Fatal(err)
	}
	args = append([]string{"torture", "--db", c.DB, "--duration", "5s", "--workers", "3"}, args...)
	cmd := exec.CommandContext(c.T.Context(), program, args...)
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "TMPDIR="+temp)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		c.T.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestTortureKeepsEveryPromiseAndCleansUp(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		if strings.HasPrefix(c.DB, "sqlite:") {
			needs.Night(c.T, "TestEveryPromiseIsKeptOnSQLite tries the same")
		}
		password := c.movePassword()
		before := tables(c)
		temp, err := os.MkdirTemp("", "dibs-torture-test-") // the records of a promise that was broken stay
		if err != nil {
			c.T.Fatal(err)
		}
		report := filepath.Join(c.T.TempDir(), "report.html")
		out, errs, code := c.tortured(temp, "--json", "--seed", "7", "--report", report)
		if code != cmdline.ExitOK {
			page, _ := os.ReadFile(report) // it tells the story of the jobs whose promises were broken
			story := regexp.MustCompile(`(?s)<(style|svg).*?</(style|svg)>|<[^>]*>|\n\s*\n`).ReplaceAllString(string(page), "")
			c.T.Fatalf("exit code %d\n%s%s\n%.20000s", code, out, errs, story)
		}
		var v tortureJSON
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			c.T.Fatal(err)
		}
		if !v.Kept || v.Seed != 7 || v.Totals.Operations == 0 || len(v.Faults) == 0 || len(v.Promises) != 13 || v.History != "" || v.DatabaseVersion == "" || v.Report != report {
			c.T.Errorf("verdict: %s", out)
		}
		if page, err := os.ReadFile(report); err != nil || !bytes.Contains(page, []byte(v.Database+" "+v.DatabaseVersion)) {
			c.T.Errorf("report: %.100s, %v", page, err)
		} else if strings.Contains(out+errs+string(page), password) {
			c.T.Error("the password is told")
		}
		if after := tables(c); after != before {
			c.T.Errorf("the torture left tables behind: %d, before it %d", after, before)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			c.T.Errorf("the torture left files behind: %v, %v", left, err)
		}
		_ = os.RemoveAll(temp)
	})
}

func TestTortureFindsWhatItCannotWriteBeforeItStarts(t *testing.T) {
	c := onSQLite(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--report", filepath.Join(dir, "no", "report.html")},
		{"--report", dir},
		{"--history", file},
		{"--history", filepath.Join(file, "history")},
		{"--history", dir},
	} {
		c.Fails(cmdline.ExitUsage, "", append([]string{"torture"}, args...), args[0])
	}
	c.DB = ""
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--pg-bin", dir}, "--pg-bin", "holds no initdb")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("it changed a file to %q, %v", text, err)
	}
}

// The test writes an effect once more, unknown to the torture: that is a broken promise, and
// all evidence of it is kept.
func TestTortureSaysWhatWasBroken(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	c.OK("migrate")
	temp := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	doctored := make(chan error, 1)
	go func() { doctored <- doctor(ctx, strings.TrimPrefix(c.DB, "sqlite:")) }()
	out, errs, code := c.tortured(temp)
	stop()
	if err := <-doctored; err != nil {
		t.Fatal(err)
	}
	if code != cmdline.ExitBroken {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"a promise was broken", "✗ 8. Effects", "The shortest history that shows it:", "The records are in " + temp} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	// Either a finish or the claiming transaction has completed the job.
	if !regexp.MustCompile(`(?s)shows it: 2 effects.*\n.*( finishes attempt .*: completed| claims it: .*\(in a transaction, committed\))`).MatchString(out) {
		t.Errorf("the history shows no completion:\n%s", out)
	}
	for _, want := range []string{"kept: the jobs: dibs --db sqlite:", "dibs torture --judge " + temp} {
		if !strings.Contains(errs, want) {
			t.Errorf("stderr does not say %q: %s", want, errs)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(temp, "dibs-torture-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	c.DB = ""
	again := c.Run("", "torture", "--judge", dirs[0])
	first, _, _ := strings.Cut(out, "operations on jobs")
	verdict, _, _ := strings.Cut(again.Out, "operations on jobs")
	if _, first, _ = strings.Cut(first, "Verdict:"); again.Code != cmdline.ExitBroken || !strings.Contains(verdict, first) {
		t.Errorf("judged again, with exit code %d:\n%s\nfirst it was:%s", again.Code, again.Out, first)
	}
}

func TestOnlyAWholeRunIsJudgedAgain(t *testing.T) {
	c := onSQLite(t)
	dir := t.TempDir()
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--judge", dir}, "leave out --db")
	c.DB = ""
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--judge", dir}, "holds no evidence of a run that came to its end")
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--judge", dir, "--seed", "1"}, "leave out --seed")
	for _, cut := range []string{"", "{", `{"jobs":1}` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, "evidence.jsonl"), []byte(cut), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"torture", "--judge", dir}, "evidence.jsonl")
	}
	whole := `{"records":{"worker-1.history":7}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "evidence.jsonl"), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Fails(cmdline.ExitUsage, "", []string{"torture", "--judge", dir}, "worker-1.history has 0 bytes, and had 7")
	for _, flag := range []string{"db", "judge", "report", "history", "pg-bin"} {
		c.Fails(cmdline.ExitUsage, "", []string{"torture", "--" + flag, ""}, "--"+flag+" is empty")
	}
}

func TestShellWords(t *testing.T) {
	for word, want := range map[string]string{
		"/tmp/a-b_c.d": "/tmp/a-b_c.d", "": "''", "two words": "'two words'", "it's": `'it'\''s'`, "a?b&c": "'a?b&c'",
	} {
		if got := words.ShellWord(word); got != want {
			t.Errorf("%q is written as %s, not %s", word, got, want)
		}
	}
}

// doctor duplicates one row of the torture's effects.
func doctor(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		var table string
		err := s.DB().QueryRowContext(ctx, `select name from sqlite_master where name like 'dibs_torture_%_effects'`).Scan(&table)
		if err == nil {
			var done sql.Result
			done, err = s.DB().ExecContext(ctx, `insert into `+table+` (job) select job from `+table+` limit 1`)
			if err == nil {
				if n, err := done.RowsAffected(); n == 1 || err != nil {
					return err
				}
			}
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("there never was an effect")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
