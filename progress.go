package dibs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Progress is how far an attempt has come.
type Progress struct {
	Done  int64  `json:"done"`            // of whatever unit the handler counts in; 0 or more
	Total int64  `json:"total,omitempty"` // 0: not known. Done may exceed it
	Text  string `json:"text,omitempty"`  // cut to MaxProgressText
	// At is when the store wrote it, on the database's clock; ignored in calls.
	At time.Time `json:"at,omitzero"`
}

// progressWithin is how long after SetProgress the worker sends what was set. With a slow
// call to the database it is still there within 5 s.
const progressWithin = 4 * time.Second

// handling is what the calls of a handler leave for its worker.
type handling struct {
	mu    sync.Mutex
	added []NewJob // what RawJob.Add was given; guarded by mu

	finished bool                     // set by FinishIn
	progress atomic.Pointer[Progress] // the last one set, until it is sent
	told     chan<- struct{}          // receives when progress is set after none

	store Store // the store: of steps if it is a StepStore, of the jobs before if it is a BeforeStore
	steps atomic.Pointer[stepsKnown]
}

// SetProgress says how far the attempt has come, for 'dibs show' and others who look at the
// job. total is 0 if it is not known. A handler may call it for each of a million rows: a call
// stores nothing by itself, and the last one counts. The worker writes it when it next extends
// its leases, within 5 s, so what was set 5 s before a crash is there. It can be seen while the
// attempt runs, and goes with it.
//
// Negative numbers are an InvalidError. The text is cut to MaxProgressText, and what is not
// valid UTF-8 in it, or a NUL byte, replaced. Outside of a handler, and for rows of adopted
// tables, which have no place for it, it does nothing.
func (j *RawJob) SetProgress(done, total int64, text string) error {
	switch {
	case done < 0:
		return &InvalidError{"progress.done", fmt.Sprintf("must not be negative, got %d", done)}
	case total < 0:
		return &InvalidError{"progress.total", fmt.Sprintf("must not be negative, got %d", total)}
	}
	h := j.handling
	if h == nil {
		return nil
	}
	if h.progress.Swap(&Progress{Done: done, Total: total, Text: text}) == nil {
		select {
		case h.told <- struct{}{}:
		default: // the worker has not taken the last signal yet
		}
	}
	return nil
}

// noteProgress has the leases extended soon, as a handler has set its progress.
func (r *run) noteProgress(now time.Time) {
	r.extends.progressAt = earliest(r.extends.progressAt, now.Add(progressWithin))
	r.extends.checkAt = earliest(r.extends.checkAt, r.extends.progressAt)
}

// takeProgress returns the lease with the progress to write, if there is one.
func (h *held) takeProgress() Lease {
	l := h.lease
	if h.handling != nil {
		l.Progress = h.handling.progress.Swap(nil)
	}
	return l
}

// keepProgress has a progress that was not written sent again, unless the handler has set
// another one since.
func (r *run) keepProgress(h *held, p *Progress) {
	if p != nil {
		h.handling.progress.CompareAndSwap(nil, p)
		r.extends.progressAt = r.extends.checkAt
	}
}
