package screens

import (
	"bytes"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

var (
	demoScreen    = Screen{Name: "dibs demo", Title: "5,000 jobs · 4 worker processes · a SQLite file of its own", Width: 80}
	tortureScreen = Screen{Name: "dibs torture", Title: "8 workers, 2 producers, seed 7, a SQLite file of its own", Width: 80, Total: 2 * time.Minute}

	inDemo = torture.Progress{
		Jobs: 5000, Elapsed: 8400 * time.Millisecond,
		Queues: []admin.QueueStats{{Waiting: 1204, Blocked: 431, Running: 39, Completed: 3294, Dead: 32}},
		Workers: []torture.WorkerProgress{
			{Name: "worker-1", Completed: 900, Running: 8},
			{Name: "worker-2", Completed: 890, Running: 7},
			{Name: "worker-3", Completed: 431, Killed: true, Held: 9, Recovered: 4},
			{Name: "worker-4", Completed: 888},
		},
		Notes: []torture.Note{{At: 130 * time.Millisecond, Text: "4 worker processes started"}},
	}
	inTorture = torture.Progress{
		Stage: "draining", Interrupted: true, Elapsed: 75 * time.Second,
		Queues: []admin.QueueStats{{Waiting: 700, Running: 30, Completed: 81234}, {Blocked: 431, Running: 9, Dead: 32, Cancelled: 5}},
		Faults: map[string]int{"kills": 1200, "stops": 40, "server_kills": 3},
	}
)

func TestThePictures(t *testing.T) {
	t.Parallel()
	for name, picture := range map[string]string{
		"begin": demoScreen.draw(&torture.Progress{}), "middle": demoScreen.draw(&inDemo),
		"torture_begin": tortureScreen.draw(&torture.Progress{}), "torture_middle": tortureScreen.draw(&inTorture),
	} {
		golden.Match(t, name+".txt", picture+"\n")
	}
}

// A picture that grew would leave torn copies above.
func TestEachPictureHasAsManyLines(t *testing.T) {
	t.Parallel()
	demo, all := inDemo, inTorture
	demo.Workers = append(demo.Workers[:4:4], torture.WorkerProgress{Name: "worker-5"})
	demo.Notes = append(demo.Notes[:1:1], make([]torture.Note, 4)...)
	all.Faults = map[string]int{}
	for _, f := range torture.FaultTexts {
		all.Faults[f.Name] = 1
	}
	for _, c := range []struct {
		screen *Screen
		p      torture.Progress
		want   int
	}{{&demoScreen, demo, demoLines}, {&tortureScreen, all, tortureLines}} {
		if n := strings.Count(c.screen.draw(&c.p), "\n") + 1; n != c.want {
			t.Errorf("the picture of %s grew to %d lines, want %d always", c.screen.Name, n, c.want)
		}
	}
}

// In a terminal's raw mode an interrupt comes as a key.
func TestKeysInterrupt(t *testing.T) {
	t.Parallel()
	s, times := tortureScreen, 0
	s.Interrupt = func() { times++ }
	for _, key := range []tea.KeyPressMsg{{Code: 'c', Mod: tea.ModCtrl}, {Code: 'q', Text: "q"}, {Code: 'x', Text: "x"}} {
		_, _ = model{screen: &s}.Update(key)
	}
	if times != 2 {
		t.Errorf("ctrl+c, q and x interrupted %d times, want 2", times)
	}
}

// Without a terminal it writes lines: of a torture every few seconds.
func TestTheLines(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	for _, c := range []struct {
		screen Screen
		p      torture.Progress
	}{{demoScreen, inDemo}, {tortureScreen, inTorture}} {
		c.screen.Out, c.screen.Err = &all, &all
		c.screen.Start()
		c.screen.Watch(c.p)
		c.p.Elapsed += time.Second - 1 // too soon for another line
		c.screen.Watch(c.p)
		if err := c.screen.Close(); err != nil {
			t.Fatal(err)
		}
	}
	golden.Match(t, "lines.txt", all.String())
}

func TestBarsAreFilledToTheEighth(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{
		0: "░░░░", 0.03125: "▏░░░", 0.25: "█░░░", 0.625: "██▌░", 1: "████", 2: "████", -1: "░░░░",
	} {
		full, rest := Bar(part, 4)
		if got := full + rest; got != want || lipgloss.Width(got) != 4 {
			t.Errorf("bar filled to %v: %q, want %q", part, got, want)
		}
	}
}

func TestTheVerdicts(t *testing.T) {
	t.Parallel()
	owners := history.Verdict{Number: 2, Promise: "At most one live owner: between a claim and its end no other claim of that job succeeds.", Checked: 21636}
	demo := torture.Result{
		About: torture.About{Took: 13500 * time.Millisecond}, Verdicts: []history.Verdict{owners},
		Demo: &torture.Demo{
			Jobs: 5000, Attempts: 5409, Ends: []torture.Row{{Text: "jobs enqueued", Want: 5000, Got: 5000, Kept: true}},
			Recovery: []time.Duration{2900 * time.Millisecond, 3 * time.Second, 3400 * time.Millisecond},
			Waits:    []torture.Wait{{Priority: 0, Average: 1200 * time.Millisecond}, {Priority: 100, Average: 7 * time.Second}},
		},
	}
	untried := history.Verdict{Number: 9, Promise: "A unique key never has two live jobs."}
	all := torture.Result{
		About:    torture.About{Took: 130 * time.Second, Database: "SQLite", Version: "3.51.0", Dibs: "v1", Platform: "linux/amd64", Cores: 2, Command: "dibs torture --seed 7", Faults: map[string]int{"kills": 12}},
		Verdicts: []history.Verdict{owners, untried}, Orders: torture.Orders{Checked: 400, Undecided: 3},
		Totals: torture.Totals{Operations: 130_000, Calls: 9000, Unanswered: 12, Enqueued: 50_000, Claimed: 50_000, Finished: 29_000, Others: 1000, Refused: 17},
	}
	violation := history.Violation{Job: 7, Text: "job 7 was claimed by worker-1 (attempt 2) while it belonged to worker-2 (attempt 1): it had two owners"}
	for name, r := range map[string]*torture.Result{"kept": &demo, "broken": &demo, "torture_kept": &all, "torture_broken": &all} {
		r, s := *r, demoScreen
		if strings.HasSuffix(name, "broken") {
			owners := owners
			owners.Broken = []history.Violation{violation}
			r.Verdicts = []history.Verdict{owners}
		}
		if r.Demo == nil {
			s, r.Dir = tortureScreen, "records"
		}
		text := s.Verdict(&r, "")
		if name == "kept" {
			text += s.Next("/tmp/go-build1/exe/dibs")
		}
		golden.Match(t, name+".txt", text)
	}
}
