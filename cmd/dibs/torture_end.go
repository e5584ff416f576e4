package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/screens"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// newScreen makes the screen of a torture that goes on for a time, or of a demo.
func (a *app) newScreen(name, title string, total time.Duration) *screens.Screen {
	s := &screens.Screen{
		Name: name, Title: title, Total: total, Quiet: a.JSON, Out: a.Stdout, Err: a.Stderr, Color: a.Color, Width: a.Width,
	}
	if a.OutTTY {
		s.Terminal = a.Screen
	}
	return s
}

func (a *app) newTortureScreen(o tortureOptions, p *place) *screens.Screen {
	beside := "2 producers"
	if a.Table != "" {
		beside = "another program"
	}
	return a.newScreen("dibs torture", fmt.Sprintf("%s, %s, seed %d, %s", words.Plural(o.workers, "worker"), beside, o.seed, p.text), o.duration)
}

// runTorture runs a torture or a demo on a place, with processes of this program, and shows how it goes
// on. The first interrupt ends the faults of a torture, the second one gives up; a third one kills. Kept
// is the folder in which the records stay.
func (a *app) runTorture(ctx context.Context, shown *screens.Screen, at *place, kept string, c torture.Config) (*torture.Result, error) {
	spawner := runner.NewSpawner()
	defer spawner.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	giveUp := make(chan struct{})
	second := sync.OnceFunc(func() { close(giveUp) })
	signals, stop := context.WithCancel(context.Background())
	defer stop()
	cmdline.SecondSignal(signals, second)
	shown.Interrupt = func() { // keys of a terminal are no signals
		if ctx.Err() != nil {
			second()
		}
		cancel()
	}
	if c.Jobs == 0 {
		c.GiveUp = giveUp
	}
	c.URL, c.Processes, c.Watch = at.url.Reveal(), tortureProcesses{at, spawner}, shown.Watch
	shown.Start()
	result, err := torture.Run(ctx, c)
	if failed := shown.Close(); failed != nil {
		return nil, failed
	}
	switch {
	case err == nil:
		return result, nil
	case c.Jobs > 0 && ctx.Err() != nil:
		return nil, &cmdline.CodeError{Code: cmdline.ExitInterrupted, Err: ctx.Err()}
	}
	return nil, a.untortured(ctx, kept, err)
}

// untortured reports why there is nothing to judge, and what was left behind.
func (a *app) untortured(ctx context.Context, history string, err error) error {
	var few *torture.ConnectionsError
	switch {
	case errors.As(err, &few) && few.Most > 0:
		return &cmdline.HintError{Err: err, Next: fmt.Sprintf("give --workers %d at most, or raise max_connections", few.Most)}
	case errors.As(err, &few):
		return &cmdline.HintError{Err: err, Next: "raise max_connections, or stop the server's other users"}
	case ctx.Err() == nil || !errors.Is(err, context.Canceled):
		return err
	}
	kept := ""
	if history != "" {
		kept = ", but for the records in " + history
	}
	fmt.Fprintf(a.Stderr, "dibs: interrupted: nothing was judged; what the torture had made is removed%s\n", kept)
	return &cmdline.CodeError{Code: cmdline.ExitInterrupted}
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
		text += " --pg-bin " + words.ShellWord(o.bin)
	case db != "":
		text += " --db " + words.ShellWord(db.String())
	}
	return fmt.Sprintf("%s --duration %s --workers %d --seed %d", text, wire.FormatDuration(o.duration), o.workers, o.seed)
}

// judgeTorture judges the records of an earlier run again.
func (a *app) judgeTorture(cmd *cobra.Command, o tortureOptions) error {
	result, err := torture.Judge(o.judge)
	if errors.Is(err, torture.ErrNoEvidence) {
		return cmdline.Usagef(cmd, "--judge: %w", err)
	} else if err != nil {
		return err
	}
	return a.reportTorture(a.newTortureScreen(o, &place{}), result, o.report, true)
}

// reportTorture writes the verdict, and returns an error if a promise was broken.
func (a *app) reportTorture(shown *screens.Screen, r *torture.Result, report string, keep bool) error {
	if !keep && r.Kept() {
		r.Dir = "" // the folder is about to be removed
	}
	var err error
	if report != "" {
		if err = writeReport(r, report); err != nil {
			report = ""
		}
	}
	if a.JSON {
		err = errors.Join(err, a.WriteJSON(tortureJSONOf(r, report)))
	} else {
		fmt.Fprint(a.Stdout, shown.Verdict(r, report))
	}
	switch {
	case !r.Kept() && r.Adopted != "":
		return &cmdline.HintError{
			Err:  &cmdline.CodeError{Code: cmdline.ExitBroken, Err: errors.Join(errors.New("a promise was broken"), err)},
			Next: "see how 'dibs adopt check' says that claims are fenced: where whole seconds have to tell them apart, this is how it shows;\notherwise please report this with the mapping and the folder " + words.ShellWord(r.Dir),
		}
	case !r.Kept():
		return &cmdline.HintError{
			Err:  &cmdline.CodeError{Code: cmdline.ExitBroken, Err: errors.Join(errors.New("a promise was broken"), err)},
			Next: fmt.Sprintf("judge it again with 'dibs torture --judge %s'; please report this with that folder", words.ShellWord(r.Dir)),
		}
	case r.Interrupted && err == nil:
		return &cmdline.CodeError{Code: cmdline.ExitInterrupted} // the interrupt has been reported
	}
	return err
}

func writeReport(r *torture.Result, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(torture.WriteReport(f, r), f.Close())
}
