package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A stopped process does not notice the end of its stdin.
func TestStoppedProcessesDoNotOutliveAKilledTorture(t *testing.T) {
	c := onSQLite(t)
	const workers, all = 2, 4 // all includes two producers
	cmd := c.Command("torture", "--workers", strconv.Itoa(workers), "--duration", "1m", "--history", filepath.Join(t.TempDir(), "history"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	for until := time.Now().Add(time.Minute); len(children) < all && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
		children = childrenOf(cmd.Process.Pid)
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // the torture may just have killed it
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error is that it was killed
	if len(children) < all {
		t.Fatalf("%d processes, not %d", len(children), all)
	}
	for _, pid := range children {
		for until := time.Now().Add(time.Minute); lives(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // kills processes that are left behind
				t.Fatalf("process %d still lives a minute later", pid)
			}
		}
	}
}

// An interrupt ends the faults early, and their effects are still judged. The SQLite file, which
// did not exist before, is removed.
func TestAnInterruptedTortureIsJudged(t *testing.T) {
	needs.Night(t, "TestStoppedProcessesDoNotOutliveAKilledTorture ends one, and TestAnInterruptedBenchCleansUp interrupts")
	c := onSQLite(t)
	cmd := c.Command("torture", "--workers", "2", "--duration", "10m")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewScanner(stdout)
	for asked := false; lines.Scan(); {
		fmt.Fprintln(&out, lines.Text())
		if !asked && strings.Contains(lines.Text(), "running") {
			asked = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code says it
	if code := cmd.ProcessState.ExitCode(); code != cmdline.ExitInterrupted {
		t.Errorf("exit code %d:\n%s%s", code, &out, &errs)
	}
	if !strings.Contains(out.String(), "Verdict:") || !strings.Contains(errs.String(), "interrupted: no more faults.") {
		t.Errorf("it says\n%s%s", &out, &errs)
	}
	if _, err := os.Stat(strings.TrimPrefix(c.DB, "sqlite:")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is still there: %v", err)
	}
}

// childrenOf lists the processes that any thread of a process has started, when each runs its
// own program: only then does it die with its parent.
func childrenOf(pid int) (children []int) {
	own := commandLine(pid)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, t := range threads {
		list, _ := os.ReadFile(t) // the thread may have ended
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil && commandLine(child) != own {
				children = append(children, child)
			}
		}
	}
	return children
}

func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the process may have ended
	return string(line)
}

// lives reports whether a process runs; a zombie does not.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
