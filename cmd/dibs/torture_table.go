package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
)

// tortureTable runs the torture on a copy of the adopted table.
func (a *app) tortureTable(ctx context.Context, o tortureOptions) (err error) {
	m, err := cmdline.ReadMapping(a.Table)
	if err != nil {
		return err
	}
	if c := m.Claim; !m.SideTable && c.Token+c.LockedBy+c.StartedAt+c.Timeout+c.Attempts == "" && len(c.Set) == 0 {
		return &dibs.InvalidError{Field: "claim", Reason: "names nothing that a claim could write: a row is held by a transaction alone then, which the torture does not try"}
	}
	dir, remove, err := tortureDir(o.history)
	if err != nil {
		return err
	}
	broken := false
	defer func() {
		if !broken {
			err = errors.Join(err, remove())
		}
	}()
	c, err := torture.CopyTable(ctx, a.URL(), open.Options{Program: a.ApplicationName}, m, dir)
	if err != nil {
		return err
	}
	defer func() {
		if broken {
			fmt.Fprintf(a.Stderr, "kept: the copy: %s\n", c.Text)
		}
		err = errors.Join(err, c.Close(context.WithoutCancel(ctx), broken))
	}()
	at := &place{url: c.URL, text: c.Text}
	shown := a.newTortureScreen(o, at)
	result, err := a.runTorture(ctx, shown, at, o.history, torture.Config{
		About: torture.About{
			Dibs: readVersion().Version, Command: o.command(a.URL()) + " --table " + words.ShellWord(a.Table), Adopted: m.Table,
			Workers: o.workers, Seed: o.seed, Duration: o.duration,
		},
		DB: torture.OnTable(c.Table), Dir: dir, Adopted: &c.Adopted,
	})
	if err != nil {
		return err
	}
	broken = !result.Kept()
	return a.reportTorture(shown, result, o.report, o.history != "")
}
