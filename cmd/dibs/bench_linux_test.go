package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// After Ctrl-C in the middle of a workload with a second process, the bench shows its
// figures and removes what it created.
func TestAnInterruptedBenchCleansUp(t *testing.T) {
	onEach(t, func(c *cli) {
		untouched := c.untouched()
		temp := c.T.TempDir()
		cmd := c.Command("bench", "--workload", "W4,W1", "--scale", "0.1")
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			c.T.Fatal(err)
		}
		var children []int
		for until := time.Now().Add(time.Minute); len(children) == 0 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			children = childrenOf(cmd.Process.Pid)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			c.T.Fatal(err)
		}
		_ = cmd.Wait() // its exit code says it
		if code := cmd.ProcessState.ExitCode(); code != cmdline.ExitInterrupted || errs.String() != "dibs: interrupted\n" || len(children) == 0 {
			c.T.Errorf("exit code %d, processes %v\n%s%s", code, children, &out, &errs)
		}
		for _, pid := range children {
			if lives(pid) {
				c.T.Errorf("process %d still lives", pid)
			}
		}
		if text := out.String(); !strings.Contains(text, "machine ") || !strings.Contains(text, "chunks of 10,000\n") || strings.Contains(text, "p50\n") {
			c.T.Errorf("it shows other than what had been measured:\n%s", text)
		}
		untouched()
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			c.T.Errorf("files are left behind: %v, %v", left, err)
		}
	})
}

// In dibs bench | head -1, the bench removes what it created.
func TestWhatNobodyReadsCleansUp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"bench", "--workload", "W1", "--scale", "0.01", "--rounds", "100"}, {"demo"}} {
		t.Run(args[0], func(t *testing.T) { onEach(t, func(c *cli) { c.unread(args...) }) })
	}
}

func (c *cli) unread(args ...string) {
	temp := c.T.TempDir()
	cmd := c.Command(args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		c.T.Error(err)
	}
	if err := out.Close(); err != nil {
		c.T.Error(err)
	}
	_ = cmd.Wait() // its exit code says it
	if code := cmd.ProcessState.ExitCode(); code != cmdline.ExitInterrupted {
		c.T.Errorf("exit code %d, want %d", code, cmdline.ExitInterrupted)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		c.T.Errorf("files are left behind: %v, %v", left, err)
	}
}

// A command whose output cannot be written fails.
func TestOutputOnAFullDiskFails(t *testing.T) {
	onEach(t, func(c *cli) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			c.T.Fatal(err)
		}
		defer full.Close()
		for _, verb := range []string{"ls", "stats", "version"} {
			cmd := c.Command(verb)
			var errs strings.Builder
			cmd.Stdout, cmd.Stderr = full, &errs
			_ = cmd.Run() // its exit code says it
			if code := cmd.ProcessState.ExitCode(); code != cmdline.ExitFailure || !strings.Contains(errs.String(), "no space left") {
				c.T.Errorf("%s: exit code %d, %q", verb, code, errs.String())
			}
		}
	})
}
