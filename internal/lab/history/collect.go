package history

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Collect returns the evidence of a run that is over: what its clients recorded in dir, and
// what is in the database. Queues are the present settings; a run that changes settings
// must replace them by those at its start.
func Collect(ctx context.Context, db admin.Database, dir string) (e Evidence, err error) {
	if e.Calls, err = Read(dir); err != nil {
		return e, err
	}
	if e.Final, err = Jobs(ctx, db, admin.Filter{}); err != nil {
		return e, err
	}
	if e.Check, err = db.Check(ctx); err != nil {
		return e, err
	}
	e.Queues, err = db.Queues(ctx)
	return e, err
}

// Jobs lists the jobs that a filter selects, in every state.
func Jobs(ctx context.Context, db admin.Database, f admin.Filter) (all []*dibs.RawJob, err error) {
	for _, f.State = range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		for f.After, f.Limit = "", 1000; ; {
			page, err := db.List(ctx, f)
			if err != nil {
				return nil, fmt.Errorf("history: read the jobs: %w", err)
			}
			all = append(all, page.Jobs...)
			if f.After = page.Next; f.After == "" {
				break
			}
		}
	}
	return all, nil
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
