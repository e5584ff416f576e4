package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs/adopt/advice"
)

// stuck tells of rows of an adopted table that no claim will take as they are. What
// cannot be looked at is left out: the work itself reports a database that fails.
func (t *adoptedTable) stuck(ctx context.Context, tell func(advice.Finding)) {
	if t == nil {
		return
	}
	found, err := advice.Stuck(ctx, t.Store)
	if err != nil {
		return
	}
	for _, f := range found {
		if f.Severity != advice.SeverityNote {
			tell(f)
		}
	}
}

// tellStuck tells it below a list.
func (a *app) tellStuck(ctx context.Context) {
	a.adopted.stuck(ctx, func(f advice.Finding) {
		fmt.Fprintf(a.stderr, "dibs: %s\ndibs: %s\n", printable(f.Text), printable(f.Advice))
	})
}

// watchStuck logs it, at once and whenever it has changed, until ctx ends.
func watchStuck(ctx context.Context, t *adoptedTable, log *slog.Logger) {
	told := map[string]string{}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		t.stuck(ctx, func(f advice.Finding) {
			if told[f.Field] != f.Text {
				log.Warn(f.Text, "hint", f.Advice)
			}
			told[f.Field] = f.Text
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
