package cmdline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/internal/words"
)

// eachStuck calls tell for rows of an adopted table that no claim can take. It ignores errors
// of the database, which the work itself reports.
func (t *AdoptedTable) eachStuck(ctx context.Context, tell func(advice.Finding)) {
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

// TellStuck prints, below a list, the rows of an adopted table that no claim can take.
func (a *App) TellStuck(ctx context.Context) {
	a.Adopted.eachStuck(ctx, func(f advice.Finding) {
		fmt.Fprintf(a.Stderr, "dibs: %s\ndibs: %s\n", words.Printable(f.Text), words.Printable(f.Advice))
	})
}

// TellRefused prints that all due rows wait for their groups or the queue's limit, and which of the next rows the table
// refuses to have claimed. It has none of them claimed.
func (a *App) TellRefused(ctx context.Context) {
	if a.Adopted == nil {
		return
	}
	full, _ := advice.Full(ctx, a.Adopted.Store) // the figures are there; the work itself reports errors of the database
	refused, _ := advice.Refused(ctx, a.Adopted.Store)
	for _, f := range append(full, refused...) {
		if f.Severity == advice.SeverityNote { // some rows always wait for their groups
			continue
		}
		fmt.Fprintf(a.Stderr, "dibs: %s\ndibs: %s\n", words.Printable(f.Text), words.Printable(f.Advice))
	}
}

// WatchStuck logs the rows of an adopted table that no claim can take, at once and after each change, until ctx
// ends.
func WatchStuck(ctx context.Context, t *AdoptedTable, log *slog.Logger) {
	logged := map[string]string{}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		t.eachStuck(ctx, func(f advice.Finding) {
			if logged[f.Field] != f.Text {
				log.Warn(f.Text, "hint", f.Advice)
			}
			logged[f.Field] = f.Text
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
