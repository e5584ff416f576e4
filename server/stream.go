package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

const (
	// At most streamJobs lines are enqueued at once, or streamBytes, and no later than
	// streamWait after the first of them has come.
	streamJobs  = 1000
	streamBytes = 1 << 20 // a single line may be longer
	streamWait  = 10 * time.Millisecond
	// maxLine is the length in bytes of the longest line. It holds a job with a payload of the default limit,
	// whose JSON may be twice as long because of escapes.
	maxLine = 2*dibs.MaxPayload + 64<<10
	// streamEnd is how long answers may take once the server closes.
	streamEnd = 5 * time.Second
)

// stream is one call that enqueues jobs as their lines come. It reads on only when earlier lines
// have been enqueued and answered. So it holds one batch and one line in memory, whatever the
// client does.
type stream struct {
	*Server
	r     *http.Request
	lines chan inputLine
	over  context.Context // ends when the call ends
	line  int             // number of the last line taken, or of the one before the line that cannot be read
}

// limitOf returns the limit of a queue's payloads, as checks.Jobs needs it.
type limitOf func(queue string) (int, error)

// streamed is a line with its job, and then with its answer.
type streamed struct {
	Line int `json:"line"`
	*dibs.Enqueued
	Problem *Problem `json:"problem,omitempty"`
	job     dibs.NewJob
}

func (a *streamed) fail(err error) {
	p, _ := problemOf(err)
	a.Problem = &p
}

// enqueueStream enqueues the jobs of a stream of lines as they come, and answers the lines in their
// order. A job is durable when its answer is sent.
func (s *Server) enqueueStream(w http.ResponseWriter, r *http.Request) error {
	if err := mediaType(r, "application/x-ndjson"); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.work.Done()
	done, err := s.streamSeat(r)
	if err != nil {
		return err
	}
	defer done()
	control := http.NewResponseController(w)
	// An error is ignored: HTTP/2 needs no such setting, and on HTTP/1 a client can still send everything before it
	// reads.
	_ = control.EnableFullDuplex()
	over, end := context.WithCancel(r.Context())
	st := &stream{Server: s, r: r, lines: make(chan inputLine), over: over}
	read := make(chan struct{})
	defer func() {
		end()
		stopBody(r)
		<-read
	}()
	defer context.AfterFunc(s.closing, func() { _ = control.SetWriteDeadline(time.Now().Add(streamEnd)) })()
	go func() {
		defer close(read)
		st.read()
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	_ = control.Flush() // a client may wait for the headers before it sends lines
	out := json.NewEncoder(w)
	for {
		answers, more := st.next()
		releaseBody(r)
		for _, a := range answers {
			if err := out.Encode(a); err != nil {
				return nil // the client is gone
			}
		}
		if err := control.Flush(); !more || err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil
		}
	}
}

// read reads lines until the body or the call ends.
func (st *stream) read() {
	defer close(st.lines)
	drop := func(n int) { dropBody(st.r, n) }
	in := &lineReader{in: bufio.NewReaderSize(st.r.Body, 64<<10), drop: drop, over: st.over}
	for {
		line := in.next()
		if errors.Is(line.err, io.EOF) {
			return
		}
		select {
		case st.lines <- line:
		case <-st.over.Done():
			return
		}
		if line.err != nil && !errors.Is(line.err, errLongLine) {
			return
		}
	}
}

// next enqueues the lines that have come. It returns their answers, and whether more lines may come.
func (st *stream) next() (answers []*streamed, more bool) {
	batch, end := st.gather()
	if err := st.enqueue(batch); err != nil {
		if own := (*problemError)(nil); !errors.As(err, &own) {
			st.log("enqueue", err)
		}
		last := &streamed{Line: batch[0].Line}
		last.fail(err)
		return []*streamed{last}, false
	}
	if end != nil && !errors.Is(end, io.EOF) {
		last := &streamed{Line: st.line + 1}
		last.fail(end)
		batch = append(batch, last)
	}
	return batch, end == nil
}

// gather waits for a line, and takes those that come soon after it. end is not nil if these
// were the last lines; after a complete stream it is io.EOF.
func (st *stream) gather() (batch []*streamed, end error) {
	size := 0
	var soon <-chan time.Time
	for len(batch) < streamJobs && size < streamBytes {
		select {
		case line, open := <-st.lines:
			switch {
			case !open:
				return batch, io.EOF
			case line.err != nil && !errors.Is(line.err, errLongLine):
				st.line = line.number - 1
				return batch, line.err
			}
			st.line = line.number
			size += len(line.text)
			batch = append(batch, st.take(line))
			if soon == nil {
				soon = time.After(streamWait)
			}
		case <-soon:
			return batch, nil
		case <-st.closing.Done():
			return batch, &problemError{kind: shuttingDown, detail: "lines from this one on are not enqueued"}
		case <-st.over.Done():
			return batch, io.EOF
		}
	}
	return batch, nil
}

// take reads the job of a line.
func (st *stream) take(line inputLine) *streamed {
	a := &streamed{Line: st.line}
	err := line.err
	if err == nil {
		a.job, err = readJob("job", line.text)
	}
	if err != nil {
		a.fail(err)
	}
	return a
}

// enqueue enqueues the jobs of a batch that have no problem, in one call if the store refuses none. An error is
// about all of them, for example that the caller's token was taken away.
func (st *stream) enqueue(batch []*streamed) error {
	if len(batch) == 0 {
		return nil
	}
	now, err := st.again(st.r)
	if err != nil {
		return err
	}
	for _, a := range batch {
		if a.Problem == nil {
			err := st.mayUse(now, a.job.Queue)
			if err == nil {
				err = st.mayMake(st.r.Context(), a.job.Queue)
			}
			if err == nil {
				err = alone(a.job)
			}
			if err == nil {
				err = ofOne(st.mayFollow(now, []dibs.NewJob{a.job}))
			}
			if err != nil {
				a.fail(err)
			}
		}
	}
	check(batch, func(string) (int, error) { return dibs.MaxPayloadLimit, nil }) // the store checks the limits of the queues
	limitsRead := false
	for {
		var open []*streamed
		var jobs []dibs.NewJob
		for _, a := range batch {
			if a.Problem == nil {
				open, jobs = append(open, a), append(jobs, a.job)
			}
		}
		if len(jobs) == 0 {
			return nil
		}
		got, err := st.db.Enqueue(st.r.Context(), jobs)
		if i, rule, ok := wire.InvalidJob(err); ok && i < len(open) {
			open[i].fail(rule)
			if limitsRead {
				continue
			}
			// Most likely a payload is too long for its queue. So read the limits of all queues once and refuse all
			// such jobs, instead of finding each by a call.
			limit, err := st.payloadLimits()
			if err != nil {
				return err
			}
			limitsRead = true
			check(batch, limit)
			continue
		}
		if err != nil {
			return err
		}
		for i, a := range open {
			a.Enqueued = &got[i]
		}
		return nil
	}
}

// check refuses single jobs because of which the store would refuse the whole batch.
func check(batch []*streamed, limit limitOf) {
	for _, a := range batch {
		if a.Problem != nil {
			continue
		}
		_, err := checks.Jobs([]dibs.NewJob{a.job}, limit)
		if _, rule, ok := wire.InvalidJob(err); ok {
			a.fail(rule)
		} else if err != nil {
			a.fail(err)
		}
	}
}

// payloadLimits reads the payload limits of all queues. A queue that does not exist yet will have the default.
func (st *stream) payloadLimits() (limitOf, error) {
	queues, err := st.db.Queues(st.r.Context())
	if err != nil {
		return nil, err
	}
	limits := make(map[string]int, len(queues))
	for _, q := range queues {
		limits[q.Name] = q.PayloadLimit
	}
	return func(queue string) (int, error) {
		if limit, known := limits[queue]; known {
			return limit, nil
		}
		return dibs.MaxPayload, nil
	}, nil
}
