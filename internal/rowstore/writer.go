package rowstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
)

// maxTransaction is how long one transaction goes on taking calls that came meanwhile.
const maxTransaction = 20 * time.Millisecond

// Writer runs the calls of a process that write. One goroutine runs all that wait in
// one transaction; then it commits once and answers them all. A call that fails undoes only
// itself. A call that meets no other runs at once.
type Writer struct {
	conn    Writing
	wake    func(queues ...string)
	calls   chan *work
	quit    chan struct{}
	once    sync.Once
	stopped chan struct{}
	batches atomic.Pointer[func(call string, calls int)] // the function given to Observe, if any

	// Only the writer's goroutine uses the fields below. The functions together and apart are made once, for all
	// transactions.
	together, apart func(*Session) error
	first           *work
	taken           []*work // the calls that run together in the next transaction, the longest waiting first
	failed          bool    // one of the calls has failed, so all must be run again
}

// Writing is a connection that writes, as a Writer uses it.
type Writing interface {
	// Turn waits until the connection may write, and keeps others of this process from writing until Pass.
	Turn() error
	Pass()
	// Transact runs f in a transaction, commits it if f returns nil, and returns the queues to wake. If it returns
	// an error, nothing has changed.
	Transact(f func(*Session) error) (wake []string, err error)
	// Exec runs a statement without parameters and rows in the transaction.
	Exec(text string) error
	// Blocked adds to an error what keeps the connection from writing, if anything does.
	Blocked(err error) error
}

// work is one call. run may be called twice (Writer.run); then the first run was rolled back.
// Whoever first changes state from workWaiting decides: the writer, which then runs the call,
// or the caller, who gives it up.
type work struct {
	run   func(*Session) error
	state atomic.Int32
	err   error
	done  chan struct{}
}

const (
	workWaiting = iota
	workRunning
	workGivenUp
)

// StartWriter starts a writer, which calls wake after each commit with the queues that may have new work.
func StartWriter(conn Writing, wake func(queues ...string)) *Writer {
	w := &Writer{conn: conn, wake: wake, calls: make(chan *work, 256), quit: make(chan struct{}), stopped: make(chan struct{})}
	w.together, w.apart = w.runTogether, w.runApart
	go w.loop()
	return w
}

// Call runs f in a transaction and returns when that is durable. It waits for a call that
// has begun even after ctx ends, so that no job is claimed without a caller to get it.
func (w *Writer) Call(ctx context.Context, f func(*Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &work{run: f, done: make(chan struct{})}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return dibs.ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		if c.state.CompareAndSwap(workWaiting, workGivenUp) {
			return w.conn.Blocked(ctx.Err())
		}
	case <-w.stopped:
		if c.state.CompareAndSwap(workWaiting, workGivenUp) {
			return dibs.ErrClosed
		}
	}
	<-c.done
	return c.err
}

// Observe has f called for each transaction, with "write" and the number of calls that
// went into it. f must be quick: the store writes nothing meanwhile. nil ends it.
func (w *Writer) Observe(f func(call string, calls int)) { w.batches.Store(&f) }

// Queued is how many calls wait.
func (w *Writer) Queued() int { return len(w.calls) }

// Closed reports whether Stop was called.
func (w *Writer) Closed() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// Stop ends the goroutine once it has answered the calls that it has taken.
func (w *Writer) Stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.stopped
}

func (w *Writer) loop() {
	defer close(w.stopped)
	for {
		select {
		case <-w.quit:
			return
		case c := <-w.calls:
			w.transact(c)
		}
	}
}

// transact makes first, and all calls that wait behind it, in one transaction.
func (w *Writer) transact(first *work) {
	if err := w.conn.Turn(); err != nil {
		first.refuse(err)
		return
	}
	wake, err := w.run(first)
	w.conn.Pass()
	if f := w.batches.Load(); f != nil && *f != nil {
		(*f)("write", len(w.taken))
	}
	for _, c := range w.taken {
		if c.err == nil {
			c.err = err
		}
		close(c.done)
	}
	if err == nil {
		w.wake(wake...)
	} else if len(w.taken) == 0 {
		first.refuse(err)
	}
	w.first, w.taken = nil, nil
}

// refuse answers a call that was not run.
func (c *work) refuse(err error) {
	if c.state.CompareAndSwap(workWaiting, workRunning) {
		c.err = err
		close(c.done)
	}
}

// run makes first, and the calls that wait behind it, in one transaction. If a call fails, run
// undoes them all and makes each again under a savepoint, so that a failed call undoes only
// itself. The first run has no savepoints: in SQLite a transaction with a savepoint keeps a copy
// of each page that it changes, and each statement walks through the list of these copies.
//
// It returns the queues to wake, and the error of the whole transaction; if there is one, no
// call has taken effect.
func (w *Writer) run(first *work) (wake []string, err error) {
	w.first, w.failed = first, false
	wake, err = w.conn.Transact(w.together)
	if w.failed {
		wake, err = w.conn.Transact(w.apart)
	}
	return wake, err
}

func (w *Writer) runTogether(s *Session) error {
	began := time.Now()
	for c := w.first; c != nil; c = w.next(began) {
		if !c.state.CompareAndSwap(workWaiting, workRunning) {
			continue
		}
		w.taken = append(w.taken, c)
		if err := s.Run(c.run); err != nil {
			w.failed = true
			return err
		}
	}
	return nil
}

func (w *Writer) runApart(s *Session) error {
	for _, c := range w.taken {
		var lost bool
		if lost, c.err = s.apart(w.conn.Exec, func() error { return s.Run(c.run) }); lost {
			return c.err
		}
	}
	return nil
}

// next takes another call that waits, unless the transaction has gone on for long enough.
func (w *Writer) next(began time.Time) *work {
	if time.Since(began) > maxTransaction {
		return nil
	}
	select {
	case c := <-w.calls:
		return c
	default:
		return nil
	}
}
