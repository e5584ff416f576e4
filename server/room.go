package server

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/dibs-queue/dibs"
)

const (
	// maxClaimed and maxShown are how many jobs may be loading from the database at one moment, by all claims, and
	// by all calls that only look. Until the jobs have come, nobody knows their sizes, and Limits.Answers cannot
	// count them.
	maxClaimed = 160
	maxShown   = maxShowing * firstLoad
	// maxShowing is how many calls that only look may be under way at once. So workers have most connections
	// of the pool, however many people read long lists.
	maxShowing = 3
	// One token may have tokenShowing of these calls, and one that searches all jobs for a text, so that others find a
	// place at once.
	tokenShowing = 2
	// A request first loads firstLoad jobs. When it knows how large these are, it loads at most maxLoad at once,
	// since the next ones may be larger.
	firstLoad = 32
	maxLoad   = tokenShowing * firstLoad
	// answerBytes is the size at which an answer takes no more jobs.
	answerBytes = 4 << 20
	jobBytes    = 1 << 10 // roughly, the size of a job without its texts
)

// room is the memory that one answer takes of Limits.Answers.
type room struct {
	all   *gauge // the memory that all answers take
	limit int64

	mu   sync.Mutex
	held int64 // bytes counted for this answer
	over bool  // the request has ended
}

// roomOf returns the room of a request's answer.
func roomOf(r *http.Request) *room { return &entryOf(r).answer.room }

// set counts n bytes for the answer, instead of those counted before. It fails if there is not enough memory,
// unless no other answer takes any: otherwise a job larger than the limit could never be read.
func (m *room) set(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over { // a claim goes on after its client is gone, and counts nothing
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

// end gives the memory back. Later calls of set count nothing.
func (m *room) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.give(m.held)
	m.held, m.over = 0, true
}

var errNoRoom = busy("the answers to other requests take up the memory for them")

// loads limits how many jobs are loading from the database at one moment.
type loads struct {
	claimed  *semaphore.Weighted
	shown    *turns
	searches *turns // limits the shown calls that search all jobs for a text
}

func newLoads() loads {
	return loads{semaphore.NewWeighted(maxClaimed), newTurns(maxShown, maxLoad), newTurns(maxShowing-1, 1)}
}

// claim runs a call of the database that claims up to n jobs. The call counts the jobs' memory before it returns.
func (l loads) claim(ctx context.Context, n int, call func() error) error {
	if err := l.claimed.Acquire(ctx, int64(n)); err != nil {
		return err
	}
	defer l.claimed.Release(int64(n))
	return call()
}

// show runs a call of the database that loads up to n jobs for somebody who only looks; n is 0 if it loads
// other things. The call must not call show itself: if all calls waited for a second place, none would get it.
func (l loads) show(r *http.Request, n int, call func() error) error {
	give, err := l.shown.take(r.Context(), entryOf(r).token, int64(max(n, firstLoad)))
	if err != nil {
		return err
	}
	defer give()
	return call()
}

// search is show for calls that may look at many more jobs than they load.
func (l loads) search(r *http.Request, n int, call func() error) error {
	give, err := l.searches.take(r.Context(), entryOf(r).token, 1)
	if err != nil {
		return err
	}
	defer give()
	return l.show(r, n, call)
}

// together makes a call once for all who ask at the same time. The call begins after they have asked, so it does
// not miss what they have changed before. One call is under way at a time.
type together[T any] struct {
	turn, mu sync.Mutex
	next     func() (T, error) // the next call, for which callers wait; nil: there is none
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

// memory is roughly how many bytes jobs take until they are answered: the jobs themselves, and their JSON.
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

// nextLoad is how many more jobs to load for an answer that may have most jobs, judged by the sizes of those that it
// has.
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
