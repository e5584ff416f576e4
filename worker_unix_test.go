//go:build unix

package dibs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
)

// worker is a worker process.
type worker struct {
	*exec.Cmd
	ended chan error
}

// spawn starts a worker process, which sends its events to the channel.
func spawn(t *testing.T, url, name string, events chan<- event) *worker {
	t.Helper()
	return spawnOn(t, url, name, dibs.DefaultQueue, events)
}

func spawnOn(t *testing.T, url, name, queue string, events chan<- event) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), processEnv+"="+url, nameEnv+"="+name, queueEnv+"="+queue)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd, make(chan error, 1)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				e.Worker = name
				events <- e
			}
		}
		w.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-w.ended
	})
	return w
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// quit shuts the process down and waits for its end.
func (w *worker) quit(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGTERM)
	err := await(t, w.ended, "the end of a process")
	if err != nil {
		t.Errorf("process ended with %v", err)
	}
	w.ended <- err
}

func awaitEvent(t *testing.T, events <-chan event, worker, what string) event {
	t.Helper()
	for {
		if e := await(t, events, worker+" "+what); e.Worker == worker && e.What == what {
			return e
		}
	}
}

func TestKilledWorkersJobsRunElsewhereWithinItsLeaseAndTwoSeconds(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		events := make(chan event, 1000)
		ids := enqueue(t, db, plain(2*processSlots)...)
		a := spawn(t, url, "a", events)
		b := spawn(t, url, "b", events)
		for range ids {
			await(t, events, "a first attempt")
		}
		c := spawn(t, url, "c", events)
		var ofA, ofB []int64
		for _, id := range ids {
			if get(t, db, id).Worker == "a" {
				ofA = append(ofA, id)
			} else {
				ofB = append(ofB, id)
			}
		}
		if len(ofA) != processSlots {
			t.Fatalf("a holds %d jobs", len(ofA))
		}
		killed := time.Now()
		a.signal(t, syscall.SIGKILL)
		for started, finished := 0, 0; started < len(ofA) || finished < len(ofA); { // the first may be finished before the last has started
			e := await(t, events, "c started or finished")
			switch {
			case e.Worker != "c":
			case e.What == "finished":
				finished++
			case e.What == "started":
				started++
				if late := e.At.Sub(killed); late > processLease+2*time.Second {
					t.Errorf("job %d started %v after its worker was killed", e.Job, late)
				}
			}
		}
		b.quit(t)
		c.quit(t)
		for _, id := range ofA {
			if job := get(t, db, id); job.State != dibs.Completed || job.Attempt != 2 || string(job.Result) != `"c"` {
				t.Errorf("job %d of the killed worker is %s after %d attempts, result %s", id, job.State, job.Attempt, job.Result)
			}
		}
		for _, id := range ofB {
			if job := get(t, db, id); job.Attempt != job.Excused && job.State != dibs.Completed || len(job.Errors) > 0 {
				t.Errorf("job %d of a worker that shut down is %s, %d of %d attempts excused, history %v", id, job.State, job.Excused, job.Attempt, job.Errors)
			}
		}
	})
}

func TestWorkerThatStoodStillIsRefused(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		events := make(chan event, 1000)
		id := enqueue(t, db, dibs.NewJob{Kind: "stubborn"})[0]
		a := spawn(t, url, "a", events)
		awaitEvent(t, events, "a", "started")
		stopOutsideOfAWrite(t, db, a)
		b := spawn(t, url, "b", events)
		awaitEvent(t, events, "b", "finished")
		a.signal(t, syscall.SIGCONT)
		if e := awaitEvent(t, events, "a", "refused"); !strings.HasPrefix(e.Detail, dibs.ErrLeaseLost.Error()) {
			t.Errorf("the stale outcome was refused because: %s", e.Detail)
		}
		a.quit(t)
		b.quit(t)
		if job := get(t, db, id); job.State != dibs.Completed || job.Attempt != 2 || string(job.Result) != `"b"` {
			t.Errorf("job is %s after %d attempts, result %s", job.State, job.Attempt, job.Result)
		}
	})
}

// stopOutsideOfAWrite stops a process at a moment when it does not hold SQLite's
// write lock, which would stop all others too.
func stopOutsideOfAWrite(t *testing.T, db admin.Database, w *worker) {
	t.Helper()
	canWrite := func(wait time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := db.Enqueue(ctx, []dibs.NewJob{{Queue: "other", Kind: "probe"}})
		return err == nil
	}
	for range 10 {
		w.signal(t, syscall.SIGSTOP)
		awaitStop(t, w)
		if canWrite(time.Second) {
			return
		}
		w.signal(t, syscall.SIGCONT)
		if !canWrite(patience) {
			break
		}
	}
	t.Fatal("the process was writing each time it was stopped")
}

// awaitStop waits until a process that was sent SIGSTOP stands still. On a loaded machine
// that takes some ms, in which it can still take the write lock.
func awaitStop(t *testing.T, w *worker) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(w.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("the process did not stop: status %#x, error %v", uint32(status), err)
		}
		return
	}
}

// The processes print what they set, and when. Their leases last an hour, so progress is
// not written just because leases are extended.
func TestAKilledWorkerLeavesItsProgressOfFiveSecondsBefore(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		for i, life := range []time.Duration{6 * time.Second, 7500 * time.Millisecond, 9 * time.Second} {
			t.Run(life.String(), func(t *testing.T) {
				t.Parallel()
				queue := fmt.Sprint("of-", i)
				ids := enqueue(t, db, slices.Repeat([]dibs.NewJob{{Queue: queue, Kind: "counting"}}, 5)...)
				events := make(chan event, 1000)
				w := spawnOn(t, url, patient, queue, events)
				awaitEvent(t, events, patient, "started")
				timer := time.After(life)
				var killed time.Time
				set := map[int64][]event{}
				note := func(e event) {
					if e.What == "set" {
						set[e.Job] = append(set[e.Job], e)
					}
				}
				for over := false; !over; {
					select {
					case e := <-events:
						note(e)
					case <-timer:
						killed = time.Now()
						w.signal(t, syscall.SIGKILL)
					case err := <-w.ended:
						w.ended <- err
						over = true
					}
				}
				for len(events) > 0 {
					note(<-events)
				}
				for _, id := range ids {
					expectProgressOf(t, get(t, db, id), set[id], killed)
				}
			})
		}
	})
}

// expectProgressOf expects a job to have the progress that its process had set 5 s before it
// was killed, or a later one. 3 s more are for a busy machine.
func expectProgressOf(t *testing.T, job *dibs.RawJob, set []event, killed time.Time) {
	t.Helper()
	var done int64
	if job.Progress != nil {
		done = job.Progress.Done
	}
	for _, e := range set {
		if n, _ := strconv.ParseInt(e.Detail, 10, 64); n == done+1 {
			lost := killed.Sub(e.At)
			t.Logf("job %d lost %v of %d settings", job.ID, lost.Round(time.Millisecond), len(set))
			if lost > 5*time.Second+3*time.Second {
				t.Errorf("of job %d, what was set %v before the kill is not there: only %+v", job.ID, lost, job.Progress)
			}
			return
		}
	}
	t.Errorf("job %d has progress %+v, and its process had set %d", job.ID, job.Progress, len(set))
}
