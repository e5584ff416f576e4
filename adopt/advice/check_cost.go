package advice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// cost measures a claim, and reports whether an index helps it.
func (c *checker) cost(ctx context.Context, t *trial) error {
	p := c.p
	a := p.advise()
	took, claimed, err := claims(ctx, t)
	if adopted.Refused(err) {
		return adopted.Invalid("claim", "%s refuses a claim of a row: %v; see the table's constraints and triggers", p.Dialect.Title, errors.Unwrap(err))
	}
	if err != nil {
		return err
	}
	var run claimRun
	err = t.undone(ctx, func() (err error) { // it makes a claim, too
		run, err = p.database.claim(ctx, t, p.Plan)
		return err
	})
	if adopted.Refused(err) { // refused tells that
		return nil
	}
	if err != nil {
		return err
	}
	if claimed == 0 {
		c.add(SeverityNote, "available", "", "no row is available now: no claim could be tried")
	}
	measured := fmt.Sprintf("a claim of one row takes %.2f ms", float64(took.Microseconds())/1000)
	switch {
	case run.rows >= 0:
		measured += fmt.Sprintf(" and reads %d rows", run.rows)
	case run.access != "":
		measured += ", and " + run.access
	}
	switch {
	case run.index == "" && (run.rows < 0 || run.rows > fewRows):
		c.add(SeverityWarning, "index", a.claimIndex, "no index gives rows in the order of claims: %s; this grows with the table", measured)
	case run.index == "":
		c.add(SeverityWarning, "index", a.claimIndex, "no index gives rows in the order of claims: now %s, but this grows with the table", measured)
	case run.rows > manyRows:
		c.add(SeverityWarning, "index", a.claimIndex, "index %s gives rows in the order of claims, yet claims read many: %s", run.index, measured)
	default:
		c.add(SeverityNote, "index", "", "index %s gives rows in the order of claims: %s", run.index, measured)
	}
	return nil
}

const fewRows, manyRows = 100, 1000 // rows that one claim reads

// claims claims one row three times, and returns how long the quickest claim took.
func claims(ctx context.Context, t *trial) (least time.Duration, claimed int, err error) {
	for range 3 {
		start := time.Now()
		jobs, err := t.claim(ctx, 1)
		if err != nil {
			return 0, 0, err
		}
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
		claimed += len(jobs)
	}
	return least, claimed, nil
}

// outcomes claims a row for each outcome and finishes it with that. This shows what
// constraints refuse, and whether triggers change what a claim wrote.
func (c *checker) outcomes(ctx context.Context, t *trial) error {
	delay := time.Minute
	for _, o := range []struct {
		field string
		end   dibs.Outcome
	}{
		{"completed", dibs.Outcome{Ending: dibs.EndCompleted}},
		{"put_back", dibs.Outcome{Ending: dibs.EndRetry, Error: "an error", Delay: &delay}},
		{"dead", dibs.Outcome{Ending: dibs.EndDead, Error: "an error"}},
		{"cancelled", dibs.Outcome{Ending: dibs.EndCancelled}},
	} {
		if !c.has(o.field) {
			continue
		}
		jobs, err := t.claim(ctx, 1)
		if err != nil && !adopted.Refused(err) { // refused has told that
			return err
		}
		if len(jobs) == 0 {
			c.add(SeverityNote, o.field, "", "was not tried: no more rows are available now")
			return nil
		}
		end := o.end
		end.ID, end.Token = jobs[0].ID, jobs[0].Token
		switch err = t.tx.Finish(ctx, []dibs.Outcome{end}); {
		case errors.Is(err, dibs.ErrLeaseLost):
			return adopted.Invalid(o.field, "a claimed row is not as the claim left it; a trigger of the table may have changed it")
		case adopted.Refused(err):
			return adopted.Invalid(o.field, "%s refuses this outcome: %v; see the table's constraints and triggers", c.p.Dialect.Title, errors.Unwrap(err))
		case err != nil:
			return err
		}
	}
	return nil
}

// has reports whether the mapping says what the outcome does to a row.
func (c *checker) has(outcome string) bool {
	switch p := c.p; outcome {
	case "dead":
		return p.Dead != nil || p.SideTable
	case "cancelled":
		return p.Cancelled != nil
	}
	return true
}
