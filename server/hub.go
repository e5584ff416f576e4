package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	// lookEvery is how often the hub asks for the queues with due jobs, once for all clients
	// that wait: for jobs that came without a wakeup, or that became due by the clock.
	lookEvery = time.Second
	// sweepEvery is how often the hub does what is due by the clock while no client waits.
	sweepEvery = 2 * time.Second
	// callTimeout is how long one call of the hub to the database may take.
	callTimeout = 10 * time.Second
	// maxClaims is how many claims from one queue are under way at once.
	maxClaims = 8
	// maxDue is how many queues one call of Due can name.
	maxDue = 1000
)

// hub makes the claims of all clients. Those of one queue are served first come, first
// served. A client costs the database nothing while it waits, nor when it comes to others that
// wait already: the hub claims for it when there may be jobs.
type hub struct {
	db      dibs.Store
	log     *slog.Logger
	closing context.Context
	run     func(func()) // starts a goroutine that Close waits for

	mu      sync.Mutex
	lines   map[string]*line // by queue
	looking bool             // the goroutine that looks for due jobs has started

	failing bool // its last call failed, which has been logged
}

// line is the clients of one queue that have no jobs yet.
type line struct {
	hub     *hub
	queue   string
	waiting []*waiter // in the order in which they came
	claims  int       // claims under way
	stop    func()    // ends the wakeups; nil: nobody has waited yet

	// nothing has the kinds of which claims have found no more jobs since the last wakeup, which
	// began the round; the key "" stands for all kinds. parallel is how many claims may be under
	// way for clients that have waited: it doubles with each one that gets all that it asked for.
	// failed is true when the last claim has failed, so that nothing is known.
	nothing  map[string]bool
	round    int
	parallel int
	failed   bool
}

// waiter is one client that wants jobs.
type waiter struct {
	request dibs.ClaimRequest
	kinds   string // the request's, as a key of line.nothing
	fresh   bool   // it has just come: it gets a claim whatever is known
	patient bool   // it waits for so long that the hub looks for jobs meanwhile
	busy    bool   // a claim is under way for it
	expired bool   // its wait is over: no claim is made for it but its first
	gone    bool   // nobody takes the answer
	answer  chan claimed
}

// claimed is the result of a claim.
type claimed struct {
	jobs []*dibs.RawJob
	full bool // there may be more
	err  error
}

// claim waits for jobs: until there are some, the wait is over, the client is gone or the server
// closes. If the client is gone it gives back what it has claimed.
func (h *hub) claim(ctx context.Context, r dibs.ClaimRequest, wait time.Duration) ([]*dibs.RawJob, error) {
	w := &waiter{request: r, kinds: kindsKey(r.Kinds), fresh: true, patient: wait >= 2*lookEvery, answer: make(chan claimed, 1)}
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

func kindsKey(kinds []string) string {
	sorted := slices.Clone(kinds)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), "\x00")
}

// join puts a client at the end of its line. It listens for wakeups before the first claim, so
// that none is missed between that and the wait.
func (h *hub) join(w *waiter, waits bool) *line {
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := cmp.Or(w.request.Queue, dibs.DefaultQueue)
	l := h.lines[queue]
	if l == nil {
		l = &line{hub: h, queue: queue, nothing: map[string]bool{}, parallel: 1}
		h.lines[queue] = l
	}
	l.waiting = append(l.waiting, w)
	if waits && l.stop == nil {
		l.listen()
		l.news()
	}
	l.calm(w)
	if !h.looking {
		h.looking = true
		h.run(h.look)
	}
	l.serve()
	return l
}

// expire answers a client whose wait is over, unless a claim is under way for it or its first
// claim is still to come.
func (l *line) expire(w *waiter) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	w.expired = true
	if !w.busy && !w.fresh && !w.gone {
		l.settle(w, claimed{})
	}
}

// abandon takes a client out of its line that is gone, and gives back what was claimed for it. If
// a claim is under way, that does so later.
func (l *line) abandon(w *waiter) error {
	l.hub.mu.Lock()
	w.gone = true
	if !w.busy {
		l.remove(w)
	}
	l.hub.mu.Unlock()
	select {
	case a := <-w.answer:
		return l.hub.giveBack(a.jobs)
	default:
		return nil
	}
}

// settle gives a client its answer, and takes it out of the line.
func (l *line) settle(w *waiter, a claimed) {
	w.gone = true
	w.answer <- a
	l.remove(w)
}

// remove takes a client out of the line, and ends the line after the last one.
func (l *line) remove(w *waiter) {
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	if len(l.waiting) > 0 {
		return
	}
	if l.stop != nil {
		l.stop()
	}
	if l.hub.lines[l.queue] == l {
		delete(l.hub.lines, l.queue)
	}
}

// listen has the queue's wakeups serve the line.
func (l *line) listen() {
	wake, stop := l.hub.db.Wakeups(l.queue)
	over := make(chan struct{})
	l.stop = sync.OnceFunc(func() {
		stop()
		close(over)
	})
	l.hub.run(func() {
		for {
			select {
			case <-wake:
				l.wake()
			case <-over:
				return
			}
		}
	})
}

// wake serves the line, as there may be jobs.
func (l *line) wake() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.news()
	l.serve()
}

// news begins a round: there may be jobs of all kinds.
func (l *line) news() {
	l.round++
	clear(l.nothing)
}

// calm spares clients their first claim that wait long enough, while it is known that there is
// nothing for them.
func (l *line) calm(clients ...*waiter) {
	if l.failed || len(l.nothing) == 0 {
		return
	}
	for _, w := range clients {
		if w.fresh && w.patient && !w.busy && (l.nothing[""] || l.nothing[w.kinds]) {
			w.fresh = false
		}
	}
}

// serve begins claims for the first clients for which there may be jobs.
func (l *line) serve() {
	for l.claims < maxClaims {
		i := slices.IndexFunc(l.waiting, func(w *waiter) bool {
			switch {
			case w.busy:
				return false
			case w.fresh:
				return true
			}
			return !w.expired && !l.nothing[""] && !l.nothing[w.kinds] && l.claims < l.parallel
		})
		if i < 0 {
			return
		}
		w, round := l.waiting[i], l.round
		w.busy = true
		l.claims++
		l.hub.run(func() { l.claimed(w, round, l.hub.claimSome(w.request)) })
	}
}

// claimSome claims up to as many jobs as are asked for, or so many that they make a large answer.
// It does not end with the client: a claim that is broken off may have taken jobs.
func (h *hub) claimSome(r dibs.ClaimRequest) (a claimed) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	most := r.N
	for {
		r.N = nextBatch(a.jobs, most)
		jobs, err := h.db.Claim(ctx, r)
		a.jobs, a.full = append(a.jobs, jobs...), err == nil && len(jobs) == r.N
		switch {
		case err != nil && len(a.jobs) == 0:
			a.err = err
			return a
		case !a.full, nextBatch(a.jobs, most) == 0:
			return a
		}
	}
}

// claimed hands the result of a claim to its client, or gives the jobs back if it is gone, and
// goes on with the next client.
func (l *line) claimed(w *waiter, round int, a claimed) {
	if l.note(w, round, a) {
		if err := l.hub.giveBack(a.jobs); err != nil {
			l.hub.log.Warn("call to the database failed", "call", "finish", "error", err.Error())
		}
	}
}

// note hands the result of a claim to its client, and reports whether that is gone.
func (l *line) note(w *waiter, round int, a claimed) (gone bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	first := w.fresh
	w.busy, w.fresh = false, false
	l.claims--
	l.parallel, l.failed = 1, a.err != nil
	switch {
	case a.full:
		l.parallel = min(2*(l.claims+1), maxClaims)
		clear(l.nothing)
	case a.err != nil:
		l.nothing[""] = true // once the database answers again, looking finds the jobs
	case round == l.round: // else jobs may have come since the claim
		l.nothing[w.kinds] = true
	}
	if !first && w.expired { // it has had an answer already: nothing
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

// giveBack releases jobs that their client has not got: else nobody ran them before their leases end.
func (h *hub) giveBack(jobs []*dibs.RawJob) error {
	if len(jobs) == 0 {
		return nil
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := h.db.Finish(ctx, outcomes); err != nil {
		return fmt.Errorf("%d jobs claimed for a client that is gone keep their leases, as they could not be given back: %w", len(jobs), err)
	}
	return nil
}

// look asks about once a second which queues have due jobs, while clients wait. That call does what is due by
// the clock too; while nobody waits, Sweep does it, since jobs that were claimed here may run.
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

// lookOnce wakes the queues that have due jobs, and reports whether anybody waits.
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

// call makes a call to the database that no client waits for.
func (h *hub) call(name string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(h.closing, callTimeout)
	defer cancel()
	err := f(ctx)
	if err != nil && !h.failing && h.closing.Err() == nil {
		h.log.Warn("call to the database failed; it is made again", "call", name, "error", err.Error())
	}
	h.failing = err != nil
}
