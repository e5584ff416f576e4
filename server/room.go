package server

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/dibs-queue/dibs"
)

const (
	// maxClaimed and maxShown are how many jobs are loaded from the database at one moment, for all claims and for
	// all that is only looked at: until they have come, nobody knows how large they are, and Limits.Answers cannot
	// count them.
	maxClaimed = 160
	maxShown   = maxShowing * firstLoad
	// maxShowing is how many calls for what is only looked at are under way at once, so that they leave most
	// connections of the pool to workers, however many people read long lists.
	maxShowing = 3
	// One token has at most tokenShowing of these calls, and one that searches all jobs for a text, so that others find
	// a place at once.
	tokenShowing = 2
	// A request loads firstLoad jobs before it knows how large they are, and then at most maxLoad at once, since
	// those that follow may be larger.
	firstLoad = 32
	maxLoad   = tokenShowing * firstLoad
	// answerBytes is after how many bytes an answer takes no more jobs.
	answerBytes = 4 << 20
	jobBytes    = 1 << 10 // of a job besides its texts, roughly
)

// room is the memory that the answer to one request takes of Limits.Answers.
type room struct {
	all   *gauge // what all answers take
	limit int64

	mu   sync.Mutex
	held int64 // bytes counted in all
	over bool  // the request has ended
}

// roomOf is the room of a request's answer.
func roomOf(r *http.Request) *room { return &entryOf(r).answer.room }

// set counts n bytes for the answer, in place of those that were counted before. It refuses more than there is
// memory for, unless no other answer takes any: else a job that is larger than the limit could never be read.
func (m *room) set(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over { // a claim that was under way for a client that is gone
		n = 0
	}
	want := max(0, int64(n)-uncounted)
	more := want - m.held
	if now := m.all.used.Add(more); more > 0 && now > m.limit && now != want {
		m.all.give(more)
		return errNoRoom
	}
	m.held = want
	return nil
}

// free returns an error if there is no memory for any answer.
func (m *room) free() error {
	if m.all.used.Load() >= m.limit {
		return errNoRoom
	}
	return nil
}

// end gives the memory back, and counts nothing any more.
func (m *room) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.give(m.held)
	m.held, m.over = 0, true
}

var errNoRoom = busy("the answers to other requests take up the memory for them")

// loads are the jobs that are being loaded from the database.
type loads struct {
	claimed  *semaphore.Weighted
	shown    *turns
	searches *turns // those of the shown that search all jobs for a text
}

func newLoads() loads {
	return loads{semaphore.NewWeighted(maxClaimed), newTurns(maxShown, maxLoad), newTurns(maxShowing-1, 1)}
}

// claim runs a call of the database that claims up to n jobs. The call counts them before it returns.
func (l loads) claim(ctx context.Context, n int, call func() error) error {
	if err := l.claimed.Acquire(ctx, int64(n)); err != nil {
		return err
	}
	defer l.claimed.Release(int64(n))
	return call()
}

// show runs a call of the database that loads up to n jobs for somebody who only looks at them; 0: other things
// than jobs. Within the call there must be no other show: where all wait for a second place, nobody gets one.
func (l loads) show(r *http.Request, n int, call func() error) error {
	give, err := l.shown.take(r.Context(), entryOf(r).token, int64(max(n, firstLoad)))
	if err != nil {
		return err
	}
	defer give()
	return call()
}

// search is show for a call that may look at many more jobs than it loads.
func (l loads) search(r *http.Request, n int, call func() error) error {
	give, err := l.searches.take(r.Context(), entryOf(r).token, 1)
	if err != nil {
		return err
	}
	defer give()
	return l.show(r, n, call)
}

// together gives all who ask meanwhile one answer of a call. The call begins after they have asked, so it does not
// miss what they have changed before; one is under way at a time.
type together[T any] struct {
	turn, mu sync.Mutex
	next     func() (T, error) // the call that has not begun; nil: none
}

func (t *together[T]) ask(call func() (T, error)) (T, error) {
	t.mu.Lock()
	if t.next == nil {
		t.next = sync.OnceValues(func() (T, error) {
			t.turn.Lock()
			defer t.turn.Unlock()
			t.mu.Lock()
			t.next = nil
			t.mu.Unlock()
			return call()
		})
	}
	next := t.next
	t.mu.Unlock()
	return next()
}

// memory is how many bytes jobs take until they have been answered, roughly: as they are, and encoded.
func memory(jobs []*dibs.RawJob) int { return 2 * sizeOf(jobs) }

func sizeOf(jobs []*dibs.RawJob) (size int) {
	for _, j := range jobs {
		size += jobBytes + len(j.Payload) + len(j.Metadata) + len(j.Result)
		for i := range j.Errors {
			size += len(j.Errors[i].Error)
		}
	}
	return size
}

// nextLoad is how many jobs more an answer loads that may have most, by the size of those it has.
func nextLoad(have []*dibs.RawJob, most int) int {
	if len(have) == 0 {
		return min(most, firstLoad)
	}
	size := sizeOf(have)
	if size >= answerBytes {
		return 0
	}
	return min(most-len(have), maxLoad, max(1, (answerBytes-size)*len(have)/size))
}
