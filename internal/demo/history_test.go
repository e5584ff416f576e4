package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func TestAHistoryIsReadWhileItGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "w1.history")
	h := NewHistory()
	if err := h.Read(path); err != nil || len(h.Attempts) != 0 {
		t.Fatalf("a worker that has not started: %d attempts, %v", len(h.Attempts), err)
	}
	rec, err := NewRecorder(path, "w1")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	now := time.Now()
	job := &dibs.Job[Payload]{RawJob: dibs.RawJob{
		ID: 7, Attempt: 2, Group: "g", Token: dibs.Token{1},
		RunAt: now.Add(-2 * time.Second), ClaimedAt: now.Add(-time.Second), LeaseUntil: now.Add(time.Second),
	}}
	if err := rec.Began(job); err != nil {
		t.Fatal(err)
	}
	if err := h.Read(path); err != nil {
		t.Fatal(err)
	}
	if len(h.Attempts) != 1 || !h.Attempts[0].End.IsZero() {
		t.Fatalf("after the beginning: %+v", h.Attempts)
	}
	if err := rec.Returned(job, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Read(path); err != nil {
		t.Fatal(err)
	}
	a := h.Attempts[0]
	if len(h.Attempts) != 1 || a.Worker != "w1" || a.Job != 7 || a.Attempt != 2 || a.Group != "g" || a.Token != job.Token || !a.Completed {
		t.Errorf("after the end: %d attempts, %+v", len(h.Attempts), a)
	}
	if a.Start.Before(now) || a.End.Before(a.Start) ||
		!a.RunAt.Equal(job.RunAt) || !a.ClaimedAt.Equal(job.ClaimedAt) || !a.LeaseUntil.Equal(job.LeaseUntil) {
		t.Errorf("times: %+v", a)
	}
}

func TestALineThatAKillCutIsLeftOut(t *testing.T) {
	t.Parallel()
	whole, err := json.Marshal(Record{Worker: "w1", Job: 1, Attempt: 1, Start: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w1.history")
	text := string(whole) + "\n" + string(whole[:20])
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := NewHistory()
	if err := h.Read(path); err != nil || len(h.Attempts) != 1 {
		t.Errorf("%d attempts, %v; want the whole line alone", len(h.Attempts), err)
	}
}

func TestAHistoryThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	end, err := json.Marshal(Record{Worker: "w1", Job: 3, Attempt: 1, End: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(end) + "\n": "attempt 1 of job 3 ends without having begun",
		"no JSON\n":        "byte 0",
	} {
		path := filepath.Join(t.TempDir(), "w1.history")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := NewHistory().Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
