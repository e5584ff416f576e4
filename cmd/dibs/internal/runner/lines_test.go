package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestMain(m *testing.M) {
	needs.Split()
	os.Exit(m.Run())
}

// Two goroutines find that a process takes one more job, and then both give it one.
func TestAProcessIsGivenNoMoreThanMaxJobs(t *testing.T) {
	t.Parallel()
	p := NewProgram(Options{Argv: []string{"cat"}, Env: os.Environ(), StopAll: t.Context().Done()})
	defer p.Close()
	p.Log = slog.New(slog.DiscardHandler)
	pool := NewLines(p, LineOptions{Concurrency: 4, Processes: 1, Shared: true, MaxJobs: 1, Stderr: io.Discard})
	defer pool.Close()
	first, err := pool.taker(pool.seats[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := pool.taker(pool.seats[0])
	if err != nil || second != first {
		t.Fatal(second == first, err)
	}
	if j, _ := first.give(&dibs.RawJob{ID: 1}, []byte("{}\n")); j == nil {
		t.Error("the process takes no job")
	}
	if j, has := second.give(&dibs.RawJob{ID: 2}, []byte("{}\n")); j != nil || has {
		t.Errorf("the process takes two jobs: %v %v", j, has)
	}
}

// writes takes what is written to it, whole calls of Write.
type writes chan string

func (w writes) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

func (w writes) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-w:
		return text
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing is written")
		return ""
	}
}

// A process that is given a job and writes nothing may not flush: the log says so, once.
func TestWorkLinesNotesSilentProcesses(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	log := make(writes, 100)
	p := NewProgram(Options{Argv: []string{"sh", "-c", "read -r line; read -r more; echo awake; cat"}, Env: os.Environ(), StopAll: t.Context().Done()})
	defer p.Close()
	p.Log = slog.New(slog.NewTextHandler(log, nil))
	pool := NewLines(p, LineOptions{Concurrency: 1, Stderr: log})
	defer pool.Close()
	pool.silentAfter = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- pool.Handle(ctx, &dibs.RawJob{ID: 1, Queue: "q", Kind: "k"}) }()
	if text := log.next(t); !strings.Contains(text, "has written nothing to stdout") || !strings.Contains(text, "it may not flush its output") {
		t.Errorf("the log says %s", text)
	}
	process := pool.seats[0].process
	pool.silentAfter = time.Hour // what is noted from here on, this test notes
	pool.noteSilence(process)    // it was noted
	process.give(&dibs.RawJob{ID: 2}, []byte("{}\n"))
	if text := log.next(t); text != "awake\n" {
		t.Errorf("the log says %s", text)
	}
	another := &Lines{Program: p} // this pool has noted no process yet
	another.noteSilence(process)  // the process has written
	stop()
	<-ended
	select {
	case text := <-log:
		t.Errorf("the log also says %s", text)
	default:
	}
}

// Ids that JavaScript cannot hold are written as strings; both forms are read.
func TestLineIDsSurviveJavaScript(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{1, 1<<53 - 1, 1 << 53, math.MaxInt64} {
		raw, err := json.Marshal(lineID(id))
		if err != nil || (raw[0] == '"') != (id >= 1<<53) {
			t.Errorf("%d is written as %s, %v", id, raw, err)
		}
		for _, text := range []string{string(raw), fmt.Sprint(id), fmt.Sprintf(`"%d"`, id)} {
			var back lineID
			if err := json.Unmarshal([]byte(text), &back); err != nil || int64(back) != id {
				t.Errorf("%s is read as %d, %v", text, back, err)
			}
		}
	}
	for _, text := range []string{`true`, `""`, `"1`, `1"`, `[1]`, `1e3`, `"0x1"`} {
		var back lineID
		if err := json.Unmarshal([]byte(text), &back); err == nil {
			t.Errorf("%s is read as %d", text, back)
		}
	}
}
