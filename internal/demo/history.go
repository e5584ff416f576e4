package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// Record is one line of a worker's history: a handler began or returned. Start
// and End are read from the clock of the machine that runs the workers; the
// other times are the database's.
type Record struct {
	Worker  string     `json:"worker"`
	Job     int64      `json:"job"`
	Attempt int        `json:"attempt"`
	Token   dibs.Token `json:"token"`

	// Of the line written when the handler begins.
	Start      time.Time `json:"start,omitzero"`
	Group      string    `json:"group,omitempty"`
	RunAt      time.Time `json:"run_at,omitzero"`
	ClaimedAt  time.Time `json:"claimed_at,omitzero"`
	LeaseUntil time.Time `json:"lease_until,omitzero"` // as the claim set it; heartbeats only lengthen it

	// Of the line written when it returns, before the outcome goes to the database.
	End       time.Time `json:"end,omitzero"`
	Completed bool      `json:"completed,omitempty"` // false: the handler failed

	// Of the line written when the database has taken the outcome.
	Written bool `json:"written,omitempty"`
}

// Recorder appends to the history of one worker process. Each record is one write
// to the operating system, so what a process has recorded survives its SIGKILL.
type Recorder struct {
	mu     sync.Mutex
	file   *os.File
	worker string
}

// NewRecorder opens the history of the named worker for appending.
func NewRecorder(path, worker string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Recorder{file: f, worker: worker}, nil
}

// Began records that a handler begins.
func (r *Recorder) Began(j *dibs.Job[Payload]) error {
	return r.write(Record{
		Job: j.ID, Attempt: j.Attempt, Token: j.Token,
		Start: time.Now(), Group: j.Group, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, LeaseUntil: j.LeaseUntil,
	})
}

// Returned records that a handler is about to return.
func (r *Recorder) Returned(j *dibs.Job[Payload], completed bool) error {
	return r.write(Record{Job: j.ID, Attempt: j.Attempt, Token: j.Token, End: time.Now(), Completed: completed})
}

// Written records that the outcome is in the database.
func (r *Recorder) Written(j *dibs.RawJob) error {
	return r.write(Record{Job: j.ID, Attempt: j.Attempt, Token: j.Token, Written: true})
}

func (r *Recorder) write(rec Record) error {
	rec.Worker = r.worker
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (r *Recorder) Close() error { return r.file.Close() }

// Attempt is what the history tells about one attempt: its lines in one. End
// is zero while the handler runs, and for ever if its worker was killed.
type Attempt struct{ Record }

// History collects attempts from the files of several workers while they grow.
type History struct {
	Attempts []*Attempt
	byKey    map[attemptKey]*Attempt
	offsets  map[string]int64 // how far each file has been read
}

type attemptKey struct {
	worker  string
	job     int64
	attempt int
	token   dibs.Token
}

// NewHistory is a history without attempts.
func NewHistory() *History {
	return &History{byKey: map[attemptKey]*Attempt{}, offsets: map[string]int64{}}
}

// Add adds one record. Records of one worker come in the order they were written.
func (h *History) Add(rec Record) error {
	key := attemptKey{rec.Worker, rec.Job, rec.Attempt, rec.Token}
	a := h.byKey[key]
	switch {
	case rec.Written:
		if a != nil { // else it was given back unrun
			a.Written = true
		}
	case rec.End.IsZero():
		a = &Attempt{rec}
		h.Attempts = append(h.Attempts, a)
		h.byKey[key] = a
	case a == nil:
		return fmt.Errorf("attempt %d of job %d ends without having begun", rec.Attempt, rec.Job)
	default:
		a.End, a.Completed = rec.End, rec.Completed
	}
	return nil
}

// Read adds what has been appended to a file since it was last read. A last line
// without its end is left for later: it is being written, or a SIGKILL cut it.
func (h *History) Read(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil // the worker has not started yet
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, h.offsets[path], 1<<40))
	if err != nil {
		return err
	}
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil
		}
		var rec Record
		if err := json.Unmarshal(data[:end], &rec); err != nil {
			return fmt.Errorf("%s, byte %d: %w", path, h.offsets[path], err)
		}
		if err := h.Add(rec); err != nil {
			return fmt.Errorf("%s, byte %d: %w", path, h.offsets[path], err)
		}
		data = data[end+1:]
		h.offsets[path] += int64(end) + 1
	}
}
