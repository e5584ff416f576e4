package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// bulk enqueues many jobs.
type bulk struct {
	*app
	base dibs.NewJob
	form format
	path string // empty: stdin

	refs          *refs
	limits        map[string]int  // payload limits of the known queues
	changedQueues map[string]bool // queues with new jobs
	first         int64           // lowest id of the new jobs; last is the highest
	last          int64
	added         int
	heldKeys      int // number of jobs left out because another job holds their key
	replaced      int // number of jobs that have replaced the holders of their keys
	pushed        int // number of jobs that have pushed the holders of their keys
	brokenLines   int
}

// Limits of a chunk, which one statement enqueues. Of a file with refs it may have dibs.MaxBatch jobs, so that few
// come after jobs of another chunk.
const (
	chunkJobs  = 1000
	chunkBytes = 8 << 20 // payload; one record may exceed it
)

// chunk holds the next valid records and their lines.
type chunk struct {
	jobs  []dibs.NewJob
	lines []int
	bytes int
	after int // how many others its jobs come after
}

func (c *chunk) add(r record) {
	c.jobs = append(c.jobs, r.job)
	c.lines = append(c.lines, r.line)
	if raw, ok := r.job.Payload.(json.RawMessage); ok {
		c.bytes += len(raw)
	}
}

func (c *chunk) full(jobs int) bool { return len(c.jobs) == jobs || c.bytes >= chunkBytes }

// drop removes the i-th job.
func (c *chunk) drop(i int) {
	c.jobs = append(c.jobs[:i], c.jobs[i+1:]...)
	c.lines = append(c.lines[:i], c.lines[i+1:]...)
}

// name returns the input's name for messages.
func (b *bulk) name() string {
	if b.path == "" {
		return "stdin"
	}
	return b.path
}

// atLine puts the input's name and a line number before an error.
func (b *bulk) atLine(line int, err error) error {
	return fmt.Errorf("%s:%d: %w", b.name(), line, err)
}

// all enqueues every record or none. It reads the input twice, so that it finds mistakes,
// and has received slow input, before the transaction begins.
func (b *bulk) all(ctx context.Context) error {
	src, err := b.rewindable(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	return b.WithDatabase(ctx, func(db admin.Database) error {
		if err := b.readLimits(ctx, db); err != nil {
			return err
		}
		n, err := b.checkAll(ctx, src)
		if err != nil {
			return err
		}
		var done []Enqueued
		err = db.InTx(ctx, func(tx dibs.Tx) error {
			done, err = b.enqueueAll(ctx, tx, src, n)
			return err
		})
		if err != nil {
			return b.nothingEnqueued(err)
		}
		for queue := range b.changedQueues {
			db.Wake(queue)
		}
		b.write(done)
		b.printSummary()
		return nil
	})
}

// nothingEnqueued adds the consequence to an error.
func (b *bulk) nothingEnqueued(err error) error {
	var known *cmdline.HintError
	if errors.As(err, &known) || !errors.Is(err, dibs.ErrInvalid) {
		return err
	}
	return &cmdline.HintError{Err: err, Next: "nothing was enqueued: correct that line, or leave it out with --partial"}
}

func (b *bulk) readLimits(ctx context.Context, db admin.Database) error {
	queues, err := db.Queues(ctx)
	b.limits, b.changedQueues = make(map[string]int, len(queues)), make(map[string]bool)
	for _, q := range queues {
		b.limits[q.Name] = q.PayloadLimit
	}
	return err
}

// checkAll reads and checks all records and counts the jobs.
func (b *bulk) checkAll(ctx context.Context, src *source) (int, error) {
	n := 0
	bar := b.Progress("reading", -1)
	defer bar.Close()
	err := b.each(ctx, src.first(), func(r record) error {
		if r.err != nil {
			return &cmdline.HintError{
				Err:  &cmdline.CodeError{Code: cmdline.ExitUsage, Err: b.atLine(r.line, r.err)},
				Next: "nothing was enqueued: correct that line, or leave it out with --partial",
			}
		}
		n++
		bar.Add(1)
		if line, err := b.refs.check(r.line, &r.job); err != nil {
			return &cmdline.HintError{
				Err:  &cmdline.CodeError{Code: cmdline.ExitUsage, Err: b.atLine(line, err)},
				Next: "nothing was enqueued: put the line after those that it comes after",
			}
		}
		return nil
	})
	return n, err
}

// enqueueAll enqueues the n records that checkAll has found valid.
func (b *bulk) enqueueAll(ctx context.Context, tx dibs.Tx, src *source, n int) ([]Enqueued, error) {
	bar := b.Progress("enqueueing", n)
	defer bar.Close()
	again, err := src.again()
	if err != nil {
		return nil, err
	}
	done := make([]Enqueued, 0, n)
	var c chunk
	flush := func() error {
		got, err := tx.Enqueue(ctx, c.jobs)
		if i, rule, ok := wire.InvalidJob(err); ok {
			return b.atLine(c.lines[i], rule)
		}
		if err != nil {
			return err
		}
		done = b.countResults(done, &c, got)
		b.refs.enqueued(c.jobs, got)
		bar.Add(len(c.jobs))
		c = chunk{}
		return nil
	}
	most := chunkJobs
	if b.refs.used {
		most = dibs.MaxBatch
	}
	err = b.each(ctx, again, func(r record) error {
		if r.err != nil {
			return b.atLine(r.line, fmt.Errorf("the input has changed: %w", r.err))
		}
		before := b.refs.jobsBefore(&r.job)
		if len(c.jobs) > 0 && c.after+before > dibs.MaxAfter {
			if err := flush(); err != nil {
				return err
			}
		}
		b.refs.resolve(&r.job)
		c.after += before
		if c.add(r); c.full(most) {
			return flush()
		}
		return nil
	})
	if err == nil && len(c.jobs) > 0 {
		err = flush()
	}
	return done, err
}

// partial enqueues the valid records as they come, and reports the others.
func (b *bulk) partial(ctx context.Context) error {
	r := b.Stdin
	if b.path != "" {
		file, err := openFile(b.path)
		if err != nil {
			return err
		}
		defer file.Close()
		r = file
	}
	r = cmdline.Interruptible(ctx, r)
	return b.WithDatabase(ctx, func(db admin.Database) error {
		if err := b.readLimits(ctx, db); err != nil {
			return err
		}
		err := b.stream(ctx, db, cmdline.NewInput(r))
		b.printSummary()
		if err == nil && b.brokenLines > 0 {
			return &cmdline.CodeError{Code: cmdline.ExitPartial}
		}
		return err
	})
}

func (b *bulk) stream(ctx context.Context, db admin.Database, in *cmdline.Input) error {
	bar := b.Progress("enqueueing", -1)
	defer bar.Close()
	var c chunk
	flush := func() error {
		for len(c.jobs) > 0 {
			got, err := db.Enqueue(ctx, c.jobs)
			if i, rule, ok := wire.InvalidJob(err); ok { // the queue's limit has changed
				b.skip(bar, c.lines[i], rule)
				c.drop(i)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: lines up to %d: %w", b.name(), c.lines[0]-1, err)
			}
			b.write(b.countResults(nil, &c, got))
			bar.Add(len(c.jobs))
			c = chunk{}
		}
		return nil
	}
	err := b.each(ctx, in, func(r record) error {
		if r.err == nil && usesRefs(&r.job) {
			r.err = &dibs.InvalidError{Field: "ref", Reason: "cannot be used with --partial: a job could start without those in broken lines that it should come after"}
		}
		if r.err != nil {
			b.skip(bar, r.line, r.err)
		} else {
			c.add(r)
		}
		// Slow input is enqueued as it comes.
		if c.full(chunkJobs) || in.Buffered() == 0 {
			return flush()
		}
		return nil
	})
	return errors.Join(err, flush())
}

// skip reports an omitted line.
func (b *bulk) skip(bar *term.Progress, line int, err error) {
	b.brokenLines++
	bar.Clear()
	fmt.Fprintf(b.Stderr, "dibs: %v\n", b.atLine(line, err))
}

// each calls f for every record, with the error that makes it invalid.
func (b *bulk) each(ctx context.Context, in *cmdline.Input, f func(record) error) error {
	next, err := b.form.read(in, b.base)
	if err != nil {
		return b.unreadable(ctx, 1, err)
	}
	line := 0
	for {
		r, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return b.unreadable(ctx, line+1, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		line = r.line
		if r.err == nil {
			r.job = complete(r.job)
			r.err = validate(r.job, b.limits)
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

func (b *bulk) unreadable(ctx context.Context, line int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &cmdline.CodeError{Code: cmdline.ExitUsage, Err: b.atLine(line, err)}
}

// Enqueued is one job in the output.
type Enqueued struct {
	dibs.Enqueued
	Line int `json:"line"`
}

// countResults counts the results of a chunk, and appends them to list.
func (b *bulk) countResults(list []Enqueued, c *chunk, results []dibs.Enqueued) []Enqueued {
	for i, e := range results {
		list = append(list, Enqueued{e, c.lines[i]})
		switch {
		case e.Replaced:
			b.replaced++
			b.changedQueues[c.jobs[i].Queue] = true
			continue
		case e.Pushed:
			b.pushed++
			continue
		case e.Existing:
			b.heldKeys++
			continue
		}
		b.added++
		if b.first == 0 {
			b.first = e.ID
		}
		b.last = e.ID
		b.changedQueues[c.jobs[i].Queue] = true
	}
	return list
}

func (b *bulk) write(done []Enqueued) {
	if !b.JSON {
		return
	}
	for _, e := range done {
		b.Tell(e)
	}
}

// printSummary prints the counts.
func (b *bulk) printSummary() {
	if b.JSON {
		return
	}
	text := "enqueued " + words.Plural(b.added, "job")
	switch {
	case b.added == 1:
		text += fmt.Sprintf(" (id %d)", b.first)
	case b.added > 1:
		text += fmt.Sprintf(" (ids %d to %d)", b.first, b.last)
	}
	if b.replaced > 0 {
		text += fmt.Sprintf("; replaced %s", words.Count(int64(b.replaced)))
	}
	if b.pushed > 0 {
		text += fmt.Sprintf("; delayed %s", words.Count(int64(b.pushed)))
	}
	if b.heldKeys > 0 {
		text += fmt.Sprintf("; left out %s whose unique keys others hold", words.Count(int64(b.heldKeys)))
	}
	if b.brokenLines > 0 {
		text += "; left out " + words.Plural(b.brokenLines, "broken line")
	}
	b.Say("%s", text)
}

func openFile(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &open.Error{Problem: err.Error(), Next: "name a file that this user may read with --file", Err: errors.Join(dibs.ErrInvalid, err)}
	}
	return file, nil
}
