package main

import (
	"context"
	"io"
	"os/exec"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// The demo, the torture and the bench use the command's packages by these names.
type (
	style        = term.Style
	hintError    = cmdline.HintError
	codeError    = cmdline.CodeError
	durationFlag = cmdline.DurationFlag
)

const (
	plain  = term.Plain
	bold   = term.Bold
	faint  = term.Faint
	red    = term.Red
	green  = term.Green
	yellow = term.Yellow
	cyan   = term.Cyan

	ownPlace        = cmdline.OwnPlace
	exitOK          = cmdline.ExitOK
	exitFailure     = cmdline.ExitFailure
	exitUsage       = cmdline.ExitUsage
	exitBroken      = cmdline.ExitBroken
	exitInterrupted = cmdline.ExitInterrupted
)

var (
	clip         = term.Clip
	usagef       = cmdline.Usagef
	readMapping  = cmdline.ReadMapping
	secondSignal = cmdline.SecondSignal
	count        = words.Count
	plural       = words.Plural
	roughly      = words.Roughly
	shellWord    = words.ShellWord
)

// app is one run of the command. Its own fields are those of the demo, the torture and the bench, whose flags --db and
// --table name other places than those of other commands: see begin.
type app struct {
	*cmdline.App

	stdin             io.Reader
	stdout, stderr    io.Writer
	screen, errScreen io.Writer
	outTTY, errTTY    bool
	json              bool
	width             int

	dbFlag                open.URL
	schema, prefix, table string
	applicationName       string
}

func (a *app) paint(st style, s string) string                         { return a.Paint(st, s) }
func (a *app) say(format string, args ...any)                          { a.Say(format, args...) }
func (a *app) writeJSON(v any) error                                   { return a.WriteJSON(v) }
func (a *app) tableOf(headings ...string) *term.Table                  { return a.TableOf(headings...) }
func (a *app) dbURL() open.URL                                         { return a.URL() }
func (a *app) openExisting(ctx context.Context) (dibs.Database, error) { return a.OpenExisting(ctx) }

func (a *app) openTable(ctx context.Context) (cmdline.JobTable, error) {
	a.Table = a.table
	return a.OpenTable(ctx)
}

func bridge(run *cmdline.App) *app {
	a := &app{App: run}
	a.schema, a.prefix = a.Schema, a.Prefix
	a.fill()
	return a
}

// begin makes a command and those below it fill the fields of app when they begin.
func (a *app) begin(cmd *cobra.Command) *cobra.Command {
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if _, own := cmd.Annotations[ownPlace]; own {
			a.DBFlag, a.Schema, a.Prefix, a.Table = a.dbFlag, a.schema, a.prefix, a.table
		}
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.fill()
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.begin(sub)
	}
	return cmd
}

func (a *app) fill() {
	a.stdin, a.stdout, a.stderr, a.screen, a.errScreen = a.Stdin, a.Stdout, a.Stderr, a.Screen, a.ErrScreen
	a.outTTY, a.errTTY, a.json, a.width = a.OutTTY, a.ErrTTY, a.JSON, a.Width
	a.dbFlag, a.schema, a.prefix, a.table, a.applicationName = a.DBFlag, a.Schema, a.Prefix, a.Table, a.ApplicationName
}

// spawner is the runner's, by the names of its methods here.
type spawner struct{ of *runner.Spawner }

func newSpawner() *spawner { return &spawner{runner.NewSpawner()} }

func (s *spawner) start(cmd *exec.Cmd) error { return s.of.Start(cmd) }
func (s *spawner) close()                    { s.of.Close() }
