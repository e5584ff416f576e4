package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// stats of all processes: state, parent and group.
func eachProcess(f func(pid int, state string, parent, group int)) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil { // it has ended
			continue
		}
		var pid, parent, group int
		var state string
		_, rest, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent, &group); err != nil || state == "Z" {
			continue
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			f(pid, state, parent, group)
		}
	}
}

// livingGroup tells which processes of a group are alive.
func livingGroup(group int) (alive []int) {
	eachProcess(func(pid int, _ string, _, pgrp int) {
		if pgrp == group {
			alive = append(alive, pid)
		}
	})
	return alive
}

// Processes that are killed at any moment lose no job, and none is completed twice: a job is
// completed by exactly one answer, and each attempt that did not complete it is in its history or
// was given back.
func TestWorkLinesLosesNothingWhenItsProcessesAreKilled(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, flags := range [][]string{{"-c", "4"}, {"-c", "12", "--shared", "--processes", "2"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			onEach(t, func(c *cli) {
				const n = 300
				c.Feed(strings.Repeat("1\n", n), "enqueue", "q", "--jsonl", "--max-attempts", "1000")
				c.OK("queue", "q", "--backoff", "1ms")
				enough := filepath.Join(c.T.TempDir(), "enough")
				w := c.Process(append(append([]string{"q", "--lines", "--until-empty"}, flags...), lineWorker(
					`case $id in *7) sleep 0.05 ;; *00) while [ ! -e "`+enough+`" ]; do sleep 0.05; done ;; esac; `+answer)...)...)
				go func() {
					for range w.Log {
					}
				}()
				stop, stopped := make(chan struct{}), make(chan int)
				go killRandomly(w.Cmd.Process.Pid, enough, stop, stopped)
				err := w.Cmd.Wait()
				close(stop)
				if kills := <-stopped; err != nil || kills < 2 {
					c.T.Fatalf("dibs work ended with %v, after %d kills", err, kills)
				}
				c.Has(c.Stats("q"), object{"completed": n, "dead": 0, "running": 0, "waiting": 0})
				for _, page := range c.Rows(c.OK("ls", "q", "--state", "completed", "--all", "--json")) {
					for _, job := range page["jobs"].([]any) {
						job := object(job.(map[string]any))
						failed, _ := job["errors"].([]any)
						excused, _ := job["excused"].(float64)
						if got := job["attempt"].(float64) - excused - float64(len(failed)); got != 1 {
							c.T.Errorf("job %v has %v attempts, %v excused and %d failed", job["id"], job["attempt"], excused, len(failed))
						}
					}
				}
			})
		})
	}
}

// killRandomly kills children of a process until stop is closed. It makes the file enough with its second kill.
func killRandomly(parent int, enough string, stop chan struct{}, stopped chan int) {
	kills := 0
	for {
		select {
		case <-stop:
			stopped <- kills
			return
		case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
		}
		var children []int
		eachProcess(func(pid int, _ string, by, group int) {
			if by == parent && pid == group { // not one that has not become its own group yet
				children = append(children, pid)
			}
		})
		if len(children) > 0 && syscall.Kill(children[rand.IntN(len(children))], syscall.SIGKILL) == nil {
			if kills++; kills == 2 {
				_ = os.WriteFile(enough, nil, 0o644) // if it cannot, the jobs that wait for it never end
			}
		}
	}
}

func TestWorkLinesTakesItsProcessesAlongWhenKilled(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Process(append([]string{"q", "--lines", "--lease", "500ms"}, lineWorker(`exec 3>"`+p.Path+`"; echo x >&3; exec sleep 300`)...)...)
		p.Begun()
		w.Signal(syscall.SIGKILL)
		p.Gone()
		c.worked(answer)
		c.Has(c.Job(1), object{"state": "completed"})
		if got := lastError(c.Job(1)); !strings.Contains(got, "lease expired") {
			c.T.Errorf("the history says %q", got)
		}
	})
}

// A worker that was stopped past its lease must stop the process that has the job, and its answer
// must be refused.
func TestWorkLinesStopsProcessesOfLostLeases(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, flags := range [][]string{{"-c", "1"}, {"-c", "2", "--shared"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			onEach(t, func(c *cli) {
				p := c.Pipe()
				c.OK("enqueue", "q")
				w := c.Process(append(append([]string{"q", "--lines", "--lease", "500ms"}, flags...), lineWorker(`exec 3>"`+p.Path+`"; echo x >&3; trap "" TERM; sleep 300`)...)...)
				p.Begun()
				w.Freeze()
				job := c.Row(c.OK("claim", "q", "--wait", "20s", "--lease", "1m"))
				w.Signal(syscall.SIGCONT)
				p.Gone()
				c.Has(c.Job(1), object{"state": "running", "token": job["token"]})
				c.OK("finish", "1", job["token"].(string), "--completed")
				w.Signal(syscall.SIGTERM)
				if code := w.Ended(); code != cmdline.ExitOK {
					c.T.Errorf("dibs work ends with exit code %d", code)
				}
				c.Has(c.Job(1), object{"state": "completed", "attempt": job["attempt"]})
			})
		})
	}
}

// shared is a worker of several jobs at once: it keeps job 1 until it is told to stop it, with the
// reason, and answers all others when they are two, the last one first.
const shared = `last=
	while IFS= read -r line; do
		id=${line#'{"id":'} id=${id%%,*} token=${line#*'"token":"'} token=${token%%\"*} stop=${line#*'"stop":"'} stop=${stop%%\"*}
		if [ "$stop" != '{' ]; then echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"ENDING\",\"error\":\"told $stop\"}"; continue; fi
		if [ $id = 1 ]; then continue; fi
		if [ -z "$last" ]; then last=$id lastToken=$token; continue; fi
		echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":$$}"; echo "{\"id\":$last,\"token\":\"$lastToken\",\"ending\":\"completed\",\"result\":$$}"
		last=
	done`

// One process has several jobs, answers in its own order, and is told which one to stop.
func TestWorkLinesSharesAProcess(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	for _, test := range []struct {
		reason, ending string
		want           object
		err            string
	}{
		{"timeout", "retry", object{"state": "dead"}, "told timeout"},
		{"the queue's timeout", "retry", object{"state": "dead"}, "told timeout"},
		{"cancelled", "cancelled", object{"state": "cancelled"}, "told cancelled"},
		{"shutdown", "release", object{"state": "waiting", "excused": 1}, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			onEach(t, func(c *cli) {
				c.Feed(strings.Repeat("1\n", 9), "enqueue", "q", "--jsonl", "--max-attempts", "1")
				flags := []string{"q", "--lines", "--shared", "-c", "5"}
				switch test.reason { // a lease that ends on a slow machine would be another reason
				case "timeout":
					flags = append(flags, "--timeout", "2s", "--lease", "10m")
				case "the queue's timeout":
					c.OK("queue", "q", "--job-timeout", "2s")
					flags = append(flags, "--lease", "10m")
				case "cancelled":
					flags = append(flags, "--lease", "15s") // after a third of it the worker learns of the cancel
				case "shutdown":
					flags = append(flags, "--shutdown", "100ms")
				}
				w := c.Work(append(flags, "--", "sh", "-c", strings.Replace(shared, "ENDING", test.ending, 1))...)
				c.Await("q", "completed", 8)
				switch test.reason {
				case "timeout", "the queue's timeout":
					c.Await("q", "dead", 1)
				case "cancelled":
					c.OK("cancel", "1")
					c.Await("q", "cancelled", 1)
				}
				w.Stop()
				c.End(w)
				job := c.Job(1)
				c.Has(job, test.want)
				if got := lastError(job); got != test.err {
					c.T.Errorf("the error is %q, want %q", got, test.err)
				}
				for id := 2; id <= 9; id++ {
					c.once(id)
					c.Has(c.Job(id), object{"result": c.Job(2)["result"]})
				}
			})
		})
	}
}

// A process that does not stop one of its jobs is stopped. Its other jobs did nothing wrong.
func TestWorkLinesGivesBackTheOtherJobsOfAProcessThatDoesNotHeed(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("1\n", 3), "enqueue", "q", "--jsonl", "--max-attempts", "1")
		ids := []int{1, 2, 3}
		w := c.Work(append([]string{"q", "--lines", "--shared", "-c", "3", "--lease", "10s", "--grace", "300ms"}, lineWorker(`case $line in *'"stop":'*) continue ;; esac; [ $attempt = 1 ] || `+answer)...)...)
		c.Await("q", "running", 3)
		c.OK("cancel", "1")
		c.Await("q", "completed", 2)
		w.Stop()
		if log := c.End(w); !strings.Contains(log, "a job has not stopped; its process is stopped, and its other jobs are given back") {
			c.T.Errorf("the log says\n%s", log)
		}
		for _, id := range ids {
			if id == 1 {
				c.Has(c.Job(id), object{"state": "cancelled"})
				continue
			}
			c.once(id)
		}
	})
}

// A flood is not kept: dibs takes little more memory than without it.
func TestWorkLinesTakesLittleMemory(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	c := onSQLite(t)
	for name, flood := range map[string]string{"lines": `yes "a line of a log"`, "no line": `tr '\0' x </dev/zero`, "objects": `yes '{"level":"info"}' | tr -d '\n'`, "errors": `tr '\0' x </dev/zero >&2`} {
		c.OK("enqueue", name, "--max-attempts", "1")
		w := c.Process(append([]string{name, "--lines", "-c", "2", "--timeout", "2s", "--grace", "10ms"}, lineWorker(flood)...)...)
		go func() {
			for range w.Log {
			}
		}()
		c.Await(name, "dead", 1)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Cmd.Process.Pid))
		_, peak, found := strings.Cut(string(status), "VmHWM:")
		var kb int
		if _, scanErr := fmt.Sscan(peak, &kb); err != nil || !found || scanErr != nil || kb > 200<<10 {
			t.Errorf("%s: %d kB at most, %v", name, kb, errors.Join(err, scanErr))
		}
		w.Signal(syscall.SIGTERM)
		_ = w.Cmd.Wait()
	}
}
