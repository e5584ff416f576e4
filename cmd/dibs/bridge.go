package main

import (
	"context"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// The demo, the torture and the bench use the command's packages by these names.
type (
	hintError    = cmdline.HintError
	codeError    = cmdline.CodeError
	durationFlag = cmdline.DurationFlag
)

const (
	plain = term.Plain
	bold  = term.Bold
	faint = term.Faint

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

	dbFlag                open.URL
	schema, prefix, table string
}

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
	a.dbFlag, a.schema, a.prefix, a.table = a.DBFlag, a.Schema, a.Prefix, a.Table
}
