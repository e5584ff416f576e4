package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dibs-queue/dibs/internal/lab/torture"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/spf13/cobra"
)

// secondInterrupt returns a channel that the second interrupt closes. The first one ends the
// command's context; a third one kills.
func secondInterrupt() (second <-chan struct{}, stop func()) {
	given := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	secondSignal(ctx, func() { close(given) })
	return given, stop
}

// untortured reports why there is nothing to judge, and what was left behind.
func (a *app) untortured(ctx context.Context, o tortureOptions, err error) error {
	var few *torture.ConnectionsError
	switch {
	case errors.As(err, &few) && few.Most > 0:
		return &hintError{err, fmt.Sprintf("give --workers %d at most, or raise max_connections", few.Most)}
	case errors.As(err, &few):
		return &hintError{err, "raise max_connections, or stop the server's other users"}
	case ctx.Err() == nil || !errors.Is(err, context.Canceled):
		return err
	}
	kept := ""
	if o.history != "" {
		kept = ", but for the records in " + o.history
	}
	fmt.Fprintf(a.stderr, "dibs: interrupted: nothing was judged; what the torture had made is removed%s\n", kept)
	return &codeError{code: exitInterrupted}
}

// newFile returns the SQLite file of a URL if it does not exist yet, else "".
func newFile(u open.URL) string {
	path, _, err := open.Place(u)
	if err != nil || path == "" {
		return ""
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// removePlace removes what the torture has created: also the SQLite file, if it is new and
// no other program has begun to use it.
func removePlace(ctx context.Context, p *place, file string) error {
	empty, err := p.remove(ctx)
	if err != nil || file == "" || !empty {
		return err
	}
	return os.Remove(file)
}

// command returns the command line that repeats a run, without a password.
func (o *tortureOptions) command(db open.URL) string {
	text := "dibs torture"
	switch {
	case o.bin != "":
		text += " --pg-bin " + shellWord(o.bin)
	case db != "":
		text += " --db " + shellWord(db.String())
	}
	return fmt.Sprintf("%s --duration %s --workers %d --seed %d", text, wire.FormatDuration(o.duration), o.workers, o.seed)
}

// judgeTorture judges the records of an earlier run again.
func (a *app) judgeTorture(cmd *cobra.Command, o tortureOptions) error {
	result, err := torture.Judge(o.judge)
	if errors.Is(err, torture.ErrNoEvidence) {
		return usagef(cmd, "--judge: %w", err)
	} else if err != nil {
		return err
	}
	return a.reportTorture(result, o.report, true)
}
