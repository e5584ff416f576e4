package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A stopped process does not see that its stdin has ended.
func TestStoppedProcessesDoNotOutliveAKilledTorture(t *testing.T) {
	c := onSQLite(t)
	const workers, all = 2, 4 // with two producers
	cmd := c.command("torture", "--workers", strconv.Itoa(workers), "--duration", "1m", "--history", filepath.Join(t.TempDir(), "history"))
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
	_ = cmd.Wait() // says that it was killed
	if len(children) < all {
		t.Fatalf("%d processes, not %d", len(children), all)
	}
	for _, pid := range children {
		for until := time.Now().Add(time.Minute); lives(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // leaves nothing behind
				t.Fatalf("process %d still lives a minute later", pid)
			}
		}
	}
}

// childrenOf lists the processes that any thread of a process started.
func childrenOf(pid int) (children []int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, t := range threads {
		list, _ := os.ReadFile(t) // the thread may have ended
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// lives reports whether there is the process; one that nobody has waited for is none.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
