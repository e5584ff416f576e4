package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// noon is the time of the pictures in these tests, in this machine's zone.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)

// stillDatabase is a database in which nothing changes by itself.
type stillDatabase struct {
	cmdline.JobTable // a method that top does not use would panic

	queues  []admin.QueueStats
	jobs    []*dibs.RawJob
	err     error
	changed []string
}

func (s *stillDatabase) Stats(context.Context) ([]admin.QueueStats, error) { return s.queues, s.err }

func (s *stillDatabase) List(_ context.Context, f admin.Filter) (admin.Page, error) {
	var p admin.Page
	for _, j := range s.jobs {
		if j.State == f.State && (f.Queue == "" || f.Queue == j.Queue) {
			p.Jobs = append(p.Jobs, j)
		}
	}
	if len(p.Jobs) > f.Limit {
		p.Jobs, p.Next = p.Jobs[:f.Limit], "more"
	}
	return p, s.err
}

func (s *stillDatabase) Get(_ context.Context, id int64) (*dibs.RawJob, error) {
	for _, j := range s.jobs {
		if j.ID == id {
			return j, s.err
		}
	}
	return nil, dibs.ErrNotFound
}

func (s *stillDatabase) ChangeQueue(_ context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	var q dibs.Queue
	if err := f(&q); err != nil {
		return q, err
	}
	s.changed = append(s.changed, fmt.Sprintf("%s paused=%v", name, q.Paused))
	return dibs.Queue{}, s.err
}

func (s *stillDatabase) Requeue(_ context.Context, ids []int64, _ time.Time) ([]int64, error) {
	s.changed = append(s.changed, fmt.Sprintf("requeue %v", ids))
	return ids, s.err
}

func busy() *stillDatabase {
	minutes := func(n int) time.Time { return noon.Add(-time.Duration(n) * time.Minute) }
	s := &stillDatabase{queues: []admin.QueueStats{
		{
			Queue: "emails", Waiting: 1204, Scheduled: 112, Blocked: 431, Running: 3, Dead: 2, OldestAge: 63 * time.Second,
			Window: 5 * time.Minute, Claimed: 3700, Succeeded: 3690, AvgWait: 120 * time.Millisecond, AvgRun: 45 * time.Millisecond, Throughput: 12.3,
		},
		{Queue: "reports for the whole company", Paused: true, Waiting: 1_234_567, Scheduled: 10_000, ScheduledMore: true, OldestAge: 26 * time.Hour},
		{Queue: "sums"},
	}}
	s.jobs = []*dibs.RawJob{
		{
			ID: 91234, Queue: "emails", Kind: "welcome", State: dibs.Running, Worker: "web-1.example.com-4711-9f8e7d6c", Attempt: 1, MaxAttempts: 25,
			ClaimedAt: noon.Add(-1500 * time.Millisecond), LeaseUntil: noon.Add(8500 * time.Millisecond), Payload: json.RawMessage(`{"to":"ann@example.com"}`),
		},
		{
			ID: 91233, Queue: "emails", Kind: "newsletter", State: dibs.Running, Worker: "web-2", Attempt: 3, Excused: 1, MaxAttempts: 25,
			ClaimedAt: minutes(12), LeaseUntil: noon.Add(4 * time.Second), CancelRequested: true,
		},
		{
			ID: 91190, Queue: "emails", Kind: "welcome", State: dibs.Running, Worker: "web-3", Attempt: 25, MaxAttempts: 25,
			ClaimedAt: noon.Add(-14 * time.Second), LeaseUntil: noon.Add(-4 * time.Second),
		},
		{
			ID: 88001, Queue: "emails", Kind: "welcome", State: dibs.Dead, Attempt: 25, MaxAttempts: 25, FinishedAt: minutes(3),
			Errors: []dibs.AttemptError{{Attempt: 25, At: minutes(3), Error: "\n550 no such \x1b[31muser: the address was refused by the server of the recipient\nmore"}},
		},
		{ID: 88000, Queue: "emails", Kind: "発送", State: dibs.Dead, Attempt: 2, MaxAttempts: 2, FinishedAt: minutes(300)},
	}
	return s
}

// screen makes a model on a terminal of the given size, with a first snapshot.
func screen(t *testing.T, db cmdline.JobTable, width, height int) *topModel {
	t.Helper()
	a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	m := &topModel{ctx: t.Context(), db: db, interval: time.Hour, topView: topView{app: a, title: "sqlite:dibs.db"}}
	send(m, tea.WindowSizeMsg{Width: width, Height: height})
	do(m, m.Init())
	return m
}

// send gives the model a message, and runs the resulting command.
func send(m *topModel, msg tea.Msg) {
	_, cmd := m.Update(msg)
	do(m, cmd)
}

// do runs a command and gives the model its message. It does not schedule the next regular
// snapshot.
func do(m *topModel, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if looked, ok := msg.(snapshotMsg); ok {
		looked.regular = false
		looked.snap.at = noon
		msg = looked
	}
	if _, quit := msg.(tea.QuitMsg); !quit {
		send(m, msg)
	}
}

func press(m *topModel, keys ...string) {
	codes := map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown}
	for _, k := range keys {
		key := tea.Key{Code: codes[k]}
		if key.Code == 0 {
			key = tea.Key{Code: []rune(k)[0], Text: k}
		}
		send(m, tea.KeyPressMsg(key))
	}
}

func TestTopShows(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for name, keys := range map[string][]string{
		"queues":  nil,
		"second":  {"down"},
		"running": {"tab"},
		"dead":    {"tab", "tab"},
		"only":    {"enter"},
		"ask":     {"down", "p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := screen(t, busy(), 80, 24)
			press(m, keys...)
			golden.Match(t, "top/"+name+".txt", m.View().Content+"\n")
		})
	}
}

// No picture may be larger than its terminal, or contain control sequences from a job's
// text.
func TestTopFitsEveryTerminal(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	for id := range int64(300) {
		db.jobs = append(db.jobs, &dibs.RawJob{
			ID: id + 1, Queue: strings.Repeat("q", 200), Kind: "ジョブ" + strings.Repeat("種", 60), State: dibs.Running,
			Worker: strings.Repeat("👩‍👩‍👧", 20), MaxAttempts: 25, Payload: json.RawMessage(`"` + strings.Repeat("p", 5000) + `"`),
		})
	}
	for _, size := range [][2]int{{80, 24}, {132, 50}, {40, 10}, {20, 5}, {1, 1}} {
		for _, keys := range [][]string{nil, {"tab"}, {"tab", "G"}, {"tab", "G", "enter"}, {"tab", "tab"}, {"p"}} {
			m := screen(t, db, size[0], size[1])
			press(m, keys...)
			content := m.View().Content
			lines := strings.Split(content, "\n")
			if len(lines) != size[1] {
				t.Errorf("%v %v: %d lines", size, keys, len(lines))
			}
			for _, l := range lines {
				if lipgloss.Width(l) > size[0] {
					t.Errorf("%v %v: %d columns: %q", size, keys, lipgloss.Width(l), l)
				}
			}
			if strings.Contains(content, "\x1b[31m") {
				t.Errorf("%v %v: an escape sequence of an error reached the terminal", size, keys)
			}
		}
	}
}

func TestTopKeepsTheSelectionWhenTheListChanges(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	m := screen(t, db, 80, 24)
	press(m, "tab", "down") // selects job 91233
	db.jobs = slices.Insert(db.jobs, 0, &dibs.RawJob{ID: 91300, Queue: "emails", Kind: "welcome", State: dibs.Running})
	do(m, m.refresh(false))
	if j := m.selectedJob(); j == nil || j.ID != 91233 {
		t.Errorf("selected %+v, want job 91233 still", j)
	}
	db.jobs = slices.DeleteFunc(db.jobs, func(j *dibs.RawJob) bool { return j.ID == 91233 })
	do(m, m.refresh(false))
	if j := m.selectedJob(); j == nil || j.ID != 91190 {
		t.Errorf("selected %+v, want the job in its place, 91190", j)
	}
}

func TestTopChangesOnlyWhatIsConfirmed(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	m := screen(t, db, 80, 24)
	press(m, "p", "n", "p", "esc", "tab", "p", "r", "y", "tab", "r", "x")
	if len(db.changed) > 0 {
		t.Fatalf("changed without a yes: %v", db.changed)
	}
	press(m, "1", "p", "y", "down", "p", "y", "3", "down", "r", "y", "enter", "r", "y")
	want := []string{"emails paused=true", "reports for the whole company paused=false", "requeue [88000]", "requeue [88000]"}
	if !slices.Equal(db.changed, want) {
		t.Errorf("changed %q, want %q", db.changed, want)
	}
	if !strings.Contains(m.foot(), "job 88000 requeued") {
		t.Errorf("the last line says %q", m.foot())
	}
}

func TestTopOffersNoChangeOfAnAdoptedTable(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	for _, adopted := range []*cmdline.AdoptedTable{nil, {}} {
		m := screen(t, db, 80, 24)
		var offered string
		for _, keys := range [][]string{{}, {"tab"}, {"enter"}} {
			press(m, keys...)
			if m.app.Adopted = adopted; strings.Contains(m.foot(), "p pause") || strings.Contains(m.foot(), "r requeue") {
				offered += m.foot()
			}
		}
		if (offered != "") != (adopted == nil) {
			t.Errorf("adopted %v: it offers %q", adopted != nil, offered)
		}
		press(m, "p", "r", "y")
	}
	if len(db.changed) > 0 {
		t.Errorf("changed: %v", db.changed)
	}
}

func TestTopShowsAJobAndThatItIsGone(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	m := screen(t, db, 80, 24)
	press(m, "tab", "enter")
	for _, want := range []string{"job 91234  running", "web-1.example.com-4711-9f8e7d6c", `"to": "ann@example.com"`} {
		if !strings.Contains(m.View().Content, want) {
			t.Errorf("the job's picture lacks %q:\n%s", want, m.View().Content)
		}
	}
	db.jobs = nil
	do(m, m.refresh(false))
	if !strings.Contains(m.View().Content, "job 91234 is not there any more") {
		t.Errorf("after it is gone:\n%s", m.View().Content)
	}
	press(m, "esc")
	if !strings.Contains(m.View().Content, "nothing is running") {
		t.Errorf("after esc:\n%s", m.View().Content)
	}
}

func TestTopKeepsThePictureWhileTheDatabaseIsAway(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	m := screen(t, db, 80, 24)
	db.err = errors.New("no route\nto the server")
	do(m, m.refresh(false))
	if content := m.View().Content; !strings.Contains(content, "as of 12:00:00: no route") || !strings.Contains(content, "emails") {
		t.Errorf("while it is away:\n%s", content)
	}
	db.err = nil
	do(m, m.refresh(false))
	if strings.Contains(m.View().Content, "no route") {
		t.Errorf("after it is back:\n%s", m.View().Content)
	}
}

// Of running and of dead jobs, a snapshot lists some, with their number and the command that lists all.
func TestTopOnceListsSomeJobs(t *testing.T) {
	t.Parallel()
	db := busy()
	db.queues[0].Dead, db.queues[0].Running = 50_000, 3
	for i := range 300 {
		db.jobs = append(db.jobs, &dibs.RawJob{ID: int64(1000 + i), Queue: "emails", Kind: "k", State: dibs.Dead, FinishedAt: noon})
	}
	var out bytes.Buffer
	if err := newApp(strings.NewReader(""), &out, io.Discard).topOnce(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 30 {
		t.Errorf("it writes %d lines:\n%s", n, out.String())
	}
	for _, part := range []string{"the last 5 of 50,000 dead jobs; all: dibs ls --state dead; by error: dibs failures\n", "88001", "91190"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it is without %q:\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "running jobs;") {
		t.Errorf("all running jobs are listed:\n%s", out.String())
	}
}

func TestTopOnceWritesEverything(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	var out bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &bytes.Buffer{})
	if err := a.topOnce(t.Context(), busy()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Queues 3", "emails", "paused", "Running 3", "91190", "Dead 2", "550 no such"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	a.JSON = true
	if err := a.topOnce(t.Context(), busy()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Queues        []struct{ Queue string }
		Running, Dead []struct{ ID int64 }
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Queues) != 3 || len(got.Running) != 3 || len(got.Dead) != 2 || got.Dead[0].ID != 88001 {
		t.Errorf("got %+v", got)
	}
}

// The whole program runs on a real database. Pipes of keys and of pictures replace the
// terminal.
func TestTopRuns(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.OK("enqueue", "emails", `{"to":"ann@example.com"}`)
	keys, press := io.Pipe()
	pictures, screen := io.Pipe()
	a := newApp(strings.NewReader(""), screen, io.Discard)
	a.DBFlag = open.URL(c.DB)
	ended := make(chan error, 1)
	go func() {
		err := a.WithExistingDatabase(t.Context(), func(db admin.Database) error {
			return a.top(t.Context(), db, 100*time.Millisecond, tea.WithInput(keys), tea.WithWindowSize(80, 24))
		})
		screen.CloseWithError(io.EOF)
		ended <- err
	}()
	awaitText := func(want string) {
		t.Helper()
		var seen strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), want) {
			n, err := pictures.Read(buf)
			if err != nil {
				t.Fatalf("%v before the screen showed %q:\n%q", err, want, seen.String())
			}
			seen.Write(buf[:n])
		}
	}
	send := func(key string) {
		if _, err := io.WriteString(press, key); err != nil {
			t.Error(err)
		}
	}
	awaitText("emails")
	send("p")
	awaitText("pause queue emails?")
	send("y")
	awaitText("paused")
	send("q")
	go func() { _, _ = io.Copy(io.Discard, pictures) }() // discards pictures drawn at the end
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if out := c.OK("stats", "--json"); !strings.Contains(out, `"paused":true`) {
		t.Errorf("after p and y: %s", out)
	}
}
