package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

const (
	// lookEvery is how often the hub asks which queues have due jobs, once for all clients
	// that wait. This finds jobs that came without a wakeup, or became due by the clock.
	lookEvery = time.Second
	// sweepEvery is how often the hub does what is due by the clock while no client waits.
	sweepEvery = 2 * time.Second
	// callTimeout is how long one call of the hub to the database may take.
	callTimeout = 10 * time.Second
	// lateAfter is how long no look or sweep has succeeded when the server is no longer ready: one call
	// that takes callTimeout, and one more.
	lateAfter = callTimeout + 2*sweepEvery
	// maxClaims is how many claims from one queue are under way at once.
	maxClaims = 8
	// maxDue is how many queues, and how many kinds, one call of Due can name.
	maxDue = 1000
	// fewKinds is the most sets of kinds in one queue for which the hub makes a claim each when there may be jobs.
	// With more sets it first asks of which kinds the due jobs are.
	fewKinds = 8
	// maxSearch is how many calls search for jobs of those sets of kinds that none of the queue's first jobs
	// has.
	maxSearch = 64
)

// hub makes the claims of all clients. Clients of one queue are served first come, first
// served. A waiting client costs the database nothing, and neither does a new one that joins
// others that wait: the hub claims for them only if there may be jobs.
type hub struct {
	db      admin.Database
	log     *slog.Logger
	closing context.Context
	run     func(func())                                              // starts a goroutine that Close waits for
	load    func(ctx context.Context, n int, call func() error) error // runs a call that loads up to n jobs, when there is memory for them

	mu       sync.Mutex       // held for moments, also while the mu of a line is held
	lines    map[string]*line // by queue
	lookedAt time.Time        // when a look or a sweep last succeeded; at first, when looking began

	failing bool // the last call failed, and that has been logged
}

// line is a queue of clients: those that want jobs of one queue and have none yet.
type line struct {
	hub   *hub
	queue string

	mu      sync.Mutex
	over    bool      // the last client has left; the next one begins another line
	waiting []*waiter // in the order in which they came
	claims  int       // claims under way
	stop    func()    // ends the wakeups; nil: no client has waited yet

	// nothing holds the sets of kinds for which the last claim has found no more jobs, with the round
	// of that claim; allKinds stands for all kinds. Each wakeup begins a round. parallel is how many
	// claims may be under way for clients that have waited: it doubles when a claim gets all that it
	// asked for. failed is true if the last claim has failed, so that nothing is known.
	nothing  map[kindSet]int
	round    int
	parallel int
	failed   bool

	// asking is true while a call asks for the kinds of the due jobs. wokenSince is true if there
	// was a wakeup since that call began.
	asking, wokenSince bool
}

// waiter is one client that wants jobs.
type waiter struct {
	request dibs.ClaimRequest // the client's request, without the kinds
	kinds   kindSet
	room    *room // memory of the answer
	fresh   bool  // the client is new: it gets one claim even if there seem to be no jobs
	patient bool  // the client waits long enough for the hub's next look
	busy    bool  // a claim is under way for it
	expired bool  // the client's wait is over: only its first claim may still be made
	gone    bool  // nobody takes the answer any more
	answer  chan claimed
}

// claimed is the result of a claim.
type claimed struct {
	jobs []*dibs.RawJob
	full bool // there may be more
	err  error
}

// claim waits until there are jobs, the wait is over, the client is gone or the server closes.
// If the client is gone, it gives back what it has claimed.
func (h *hub) claim(ctx context.Context, r dibs.ClaimRequest, wait time.Duration, to *room) ([]*dibs.RawJob, error) {
	w := &waiter{request: r, kinds: setOf(r.Kinds), room: to, fresh: true, patient: wait >= 2*lookEvery, answer: make(chan claimed, 1)}
	w.request.Kinds = nil
	l := h.join(w, wait > 0)
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case a := <-w.answer:
		return a.jobs, a.err
	case <-over.C:
		l.expire(w)
	case <-h.closing.Done():
		l.expire(w)
	case <-ctx.Done():
	}
	select { // a claim under way is waited for, as it may take jobs
	case a := <-w.answer:
		return a.jobs, a.err
	case <-ctx.Done():
	}
	return nil, errors.Join(ctx.Err(), l.abandon(w))
}

// kindSet is a set of kinds. Clients that want the same kinds share one set in memory, and sets are compared like
// numbers.
type kindSet struct{ names unique.Handle[string] }

var allKinds = setOf(nil)

func setOf(kinds []string) kindSet {
	sorted := slices.Clone(kinds)
	slices.Sort(sorted)
	return kindSet{unique.Make(strings.Join(slices.Compact(sorted), "\x00"))}
}

// list returns the kinds, sorted; nil: all kinds.
func (k kindSet) list() []string {
	if k == allKinds {
		return nil
	}
	return strings.Split(k.names.Value(), "\x00")
}

// join puts a client at the end of its line. It listens for wakeups before the first claim, so
// that no wakeup is missed between the claim and the wait.
func (h *hub) join(w *waiter, waits bool) *line {
	l := h.lineOf(cmp.Or(w.request.Queue, dibs.DefaultQueue))
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	if waits && l.stop == nil {
		l.listen()
		l.beginRound()
	}
	l.calm(w)
	l.serve()
	return l
}

// lineOf returns the line of a queue, locked.
func (h *hub) lineOf(queue string) *line {
	for {
		h.mu.Lock()
		l := h.lines[queue]
		if l == nil {
			l = &line{hub: h, queue: queue, nothing: map[kindSet]int{}, parallel: 1, round: 1}
			h.lines[queue] = l
		}
		h.mu.Unlock()
		if l.mu.Lock(); !l.over {
			return l
		}
		l.mu.Unlock()
	}
}

// expire answers a client whose wait is over. It does not while a claim for the client is
// under way, or its first claim is still to come.
func (l *line) expire(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.expired = true
	if !w.busy && !w.fresh && !w.gone {
		l.settle(w, claimed{})
	}
}

// abandon removes a client that is gone from its line, and gives back what was claimed for it. If
// a claim is under way, that will do both.
func (l *line) abandon(w *waiter) error {
	l.mu.Lock()
	w.gone = true
	if !w.busy {
		l.remove(w)
	}
	l.mu.Unlock()
	select {
	case a := <-w.answer:
		return l.hub.giveBack(a.jobs)
	default:
		return nil
	}
}

// settle gives a client its answer, and removes it from the line.
func (l *line) settle(w *waiter, a claimed) {
	w.gone = true
	w.answer <- a
	l.remove(w)
}

// remove removes a client from the line, and ends the line after the last one.
func (l *line) remove(w *waiter) {
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	if len(l.waiting) > 0 || l.over {
		return
	}
	l.over = true
	if l.stop != nil {
		l.stop()
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.lines, l.queue)
}

// serve begins claims, in the order of the line, for clients for which there may be jobs.
func (l *line) serve() {
	for l.claims < maxClaims {
		i := slices.IndexFunc(l.waiting, func(w *waiter) bool {
			switch {
			case w.busy:
				return false
			case w.fresh:
				return true
			}
			return !w.expired && !l.empty(w) && l.claims < l.parallel
		})
		if i < 0 {
			return
		}
		w, round := l.waiting[i], l.round
		w.busy = true
		l.claims++
		l.hub.run(func() {
			request := w.request
			request.Kinds = w.kinds.list()
			l.claimed(w, round, l.hub.claimSome(request, w.room))
		})
	}
}

// claimed hands the result of a claim to its client, or gives the jobs back if the client is
// gone. Then it serves the next client.
func (l *line) claimed(w *waiter, round int, a claimed) {
	if l.note(w, round, a) {
		l.hub.putBack(a.jobs)
	}
}

// note hands the result of a claim to its client; gone is true if the client is gone.
func (l *line) note(w *waiter, round int, a claimed) (gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := w.fresh
	w.busy, w.fresh = false, false
	l.claims--
	l.parallel, l.failed = 1, a.err != nil
	switch {
	case a.full:
		l.parallel = min(2*(l.claims+1), maxClaims)
		delete(l.nothing, allKinds)
		delete(l.nothing, w.kinds)
	case a.err != nil:
		l.nothing[allKinds] = l.round // try nothing more for now: once the database answers again, a look finds the jobs
	case round == l.round: // if there was a wakeup since the claim began, new jobs may have come
		l.nothing[w.kinds] = l.round
	}
	if !first && w.expired { // the client has waited in vain, which is an empty answer and no error
		a.err = nil
	}
	switch gone = w.gone; {
	case gone:
		l.remove(w)
	case len(a.jobs) > 0, first && a.err != nil, w.expired:
		l.settle(w, a)
	}
	l.calm(l.waiting...)
	l.serve()
	return gone
}

// look asks about once a second which queues have due jobs, while clients wait. That call also does what the
// clock has made due. While no client waits, a sweep does that, since jobs that were claimed here may run,
// and schedules have ticks.
func (h *hub) look() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	swept := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-h.closing.Done():
			return
		}
		if h.lookOnce() {
			swept = time.Now()
		} else if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			h.call("sweep", func(ctx context.Context) error {
				_, err := h.db.Sweep(ctx)
				return err
			})
		}
	}
}

// lookOnce wakes the lines of queues that have due jobs, and reports whether any client waits.
func (h *hub) lookOnce() bool {
	h.mu.Lock()
	names := slices.Collect(maps.Keys(h.lines))
	h.mu.Unlock()
	for some := range slices.Chunk(names, maxDue) {
		h.call("due", func(ctx context.Context) error {
			due, err := h.db.Due(ctx, some, nil)
			for _, name := range due {
				h.mu.Lock()
				l := h.lines[name]
				h.mu.Unlock()
				if l != nil {
					l.wake()
				}
			}
			return err
		})
	}
	return len(names) > 0
}

// call makes a call to the database for which no client waits.
func (h *hub) call(name string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(h.closing, callTimeout)
	defer cancel()
	err := f(ctx)
	if err != nil && !h.failing && h.closing.Err() == nil {
		h.log.Warn("call to the database failed; it is made again", "call", name, "error", err.Error())
	}
	if h.failing = err != nil; !h.failing {
		h.mu.Lock()
		h.lookedAt = time.Now()
		h.mu.Unlock()
	}
}

// late is how long the hub has failed to do what the clock has made due; 0: it is on time.
func (h *hub) late() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lookedAt); since > lateAfter {
		return since
	}
	return 0
}
