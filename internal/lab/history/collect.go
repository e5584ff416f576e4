package history

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs"
)

// Collect returns the evidence of a run that is over: what its clients recorded in dir, and
// what is in the database. Queues are the present settings; a run that changes settings
// must replace them by those at its start.
func Collect(ctx context.Context, db dibs.Database, dir string) (e Evidence, err error) {
	if e.Calls, err = Read(dir); err != nil {
		return e, err
	}
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		f := dibs.Filter{State: state, Limit: 1000}
		for {
			page, err := db.List(ctx, f)
			if err != nil {
				return e, fmt.Errorf("history: read the jobs: %w", err)
			}
			e.Final = append(e.Final, page.Jobs...)
			if f.After = page.Next; f.After == "" {
				break
			}
		}
	}
	if e.Check, err = db.Check(ctx); err != nil {
		return e, err
	}
	e.Queues, err = db.Queues(ctx)
	return e, err
}

// Broken describes each violation in one line.
func Broken(verdicts []Verdict) (lines []string) {
	for _, v := range verdicts {
		for _, b := range v.Broken {
			lines = append(lines, fmt.Sprintf("promise %d: %s", v.Number, b.Text))
		}
	}
	return lines
}
