package advice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// The functions of this file run the mapping in a transaction that is rolled back, and report what the database says.

// refusedRows is how many rows are claimed in a trial to find those that the table refuses to have claimed.
const refusedRows = 20

// refused reports rows that the table refuses to have claimed.
func (c *checker) refused(ctx context.Context, t *trial) error {
	claimed := 0
	err := t.undone(ctx, func() error {
		jobs, err := t.claim(ctx, refusedRows)
		claimed = len(jobs)
		return err
	})
	rows := t.tx.PassedOver()
	if err != nil && !adopted.Refused(err) || len(rows) == 0 {
		return exceptRefused(err)
	}
	names := adopted.Joined(rows[:min(3, len(rows))], ", ", func(_ int, r adopt.PassedRow) string { return r.Key })
	severity := SeverityWarning
	if claimed == 0 {
		severity = SeverityError
	}
	c.report(severity, "claim",
		fmt.Sprintf("%s refuses a claim of %d of the next %d rows (%s): %s", t.Dialect.Title, len(rows), len(rows)+claimed, names, rows[0].Error),
		"they are passed over, and tried again after pauses that grow; see the table's constraints and triggers, or change the rows")
	return nil
}

// manyAttempts stands for attempts without a limit.
const manyAttempts = 1_000_000

// attempts reports that rows may be tried more often than the table allows them to count. It writes the highest number
// into some rows, and undoes that.
func (c *checker) attempts(ctx context.Context, t *trial) error {
	p := t.subject
	if p.Claim.Attempts == "" {
		return nil
	}
	name, most, limit := adopted.Quote(p.Claim.Attempts), p.MostAttempts(), fmt.Sprintf("max_attempts is %d", p.MaxAttempts)
	switch {
	case p.MaxAttemptsColumn != "":
		limit = "max_attempts_column is " + p.MaxAttemptsColumn
	case p.MaxAttempts == 0:
		most, limit = fmt.Sprint(manyAttempts), "max_attempts gives no limit"
	}
	set := func(value string) error {
		keys := func(before string) string {
			return adopted.Joined(p.Keys, ", ", func(_ int, k adopted.Column) string { return before + adopted.Quote(k.Name) })
		}
		return t.undone(ctx, func() error {
			_, err := t.ExecContext(ctx, t.Dialect.Qualified(fmt.Sprintf("update %s as t set %s = %s where (%s) in (select %s from (select %s from %s t where %s limit 100) t)",
				p.Table, name, value, keys(""), keys("t."), keys("t."), p.Table, p.Waiting())))
			return err
		})
	}
	if err := set(name); err != nil { // the table refuses every update of these rows, whatever the number
		return exceptRefused(err)
	}
	err := set(most)
	if adopted.Refused(err) {
		c.report(SeverityWarning, "max_attempts",
			fmt.Sprintf("attempts may pass what the table allows: %s, but %s refuses %s = %s: %v; such rows are passed over", limit, p.Dialect.Title, p.Claim.Attempts, most, err),
			"set max_attempts to what the table allows, and say what becomes of a row without attempts left (dead)")
	}
	return exceptRefused(err)
}

// exceptRefused leaves out an error by which the database refuses the values of a row.
func exceptRefused(err error) error {
	if adopted.Refused(err) {
		return nil
	}
	return err
}

const fewRows, manyRows = 100, 1000 // numbers of rows that one claim reads

// cost measures a claim, and reports whether an index helps it.
func (c *checker) cost(ctx context.Context, t *trial) error {
	p := t.subject
	took, claimed, err := quickest(ctx, t)
	if adopted.Refused(err) {
		return adopted.Invalid("claim", "%s refuses a claim of a row: %v; see the table's constraints and triggers", p.Dialect.Title, errors.Unwrap(err))
	}
	if err != nil {
		return err
	}
	var run claimRun
	err = t.undone(ctx, func() (err error) { // PostgreSQL makes a claim to explain it
		run, err = p.database.claim(ctx, t, p.Plan)
		return err
	})
	if err != nil {
		return exceptRefused(err) // c.refused has reported a refusal
	}
	if claimed == 0 {
		c.report(SeverityNote, "available", "no row is available now: no claim could be tried", "")
	}
	measured := fmt.Sprintf("a claim of one row takes %.2f ms", float64(took.Microseconds())/1000)
	switch {
	case run.rows >= 0:
		measured += fmt.Sprintf(" and reads %d rows", run.rows)
	case run.access != "":
		measured += ", and " + run.access
	}
	served := "index " + run.index + " gives rows in the order of claims"
	switch {
	case run.index == "" && (run.rows < 0 || run.rows > fewRows):
		c.report(SeverityWarning, "index", "no index gives rows in the order of claims: "+measured+"; this grows with the table", p.advise().claimIndex)
	case run.index == "":
		c.report(SeverityWarning, "index", "no index gives rows in the order of claims: now "+measured+", but this grows with the table", p.advise().claimIndex)
	case run.rows > manyRows:
		c.report(SeverityWarning, "index", served+", yet claims read many: "+measured, p.advise().claimIndex)
	default:
		c.report(SeverityNote, "index", served+": "+measured, "")
	}
	return nil
}

// quickest claims one row three times, and returns how long the quickest claim took.
func quickest(ctx context.Context, t *trial) (least time.Duration, claimed int, err error) {
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

// outcomes claims a row for each outcome that the mapping has, and finishes it with that. This shows what
// constraints refuse, and whether triggers change what a claim wrote.
func (c *checker) outcomes(ctx context.Context, t *trial) error {
	delay := time.Minute
	for _, o := range []struct {
		has   bool
		field string
		end   dibs.Outcome
	}{
		{true, "completed", dibs.Outcome{Ending: dibs.EndCompleted}},
		{true, "put_back", dibs.Outcome{Ending: dibs.EndRetry, Error: "an error", Delay: &delay}},
		{t.Dead != nil || t.SideTable, "dead", dibs.Outcome{Ending: dibs.EndDead, Error: "an error"}},
		{t.Cancelled != nil, "cancelled", dibs.Outcome{Ending: dibs.EndCancelled}},
	} {
		if !o.has {
			continue
		}
		jobs, err := t.claim(ctx, 1)
		if err = exceptRefused(err); err != nil { // c.refused has reported a refusal
			return err
		}
		if len(jobs) == 0 {
			c.report(SeverityNote, o.field, "was not tried: no more rows are available now", "")
			return nil
		}
		o.end.ID, o.end.Token = jobs[0].ID, jobs[0].Token
		switch err = t.tx.Finish(ctx, []dibs.Outcome{o.end}); {
		case errors.Is(err, dibs.ErrLeaseLost):
			return adopted.Invalid(o.field, "a claimed row is not as the claim left it; a trigger of the table may have changed it")
		case adopted.Refused(err):
			return adopted.Invalid(o.field, "%s refuses this outcome: %v; see the table's constraints and triggers", t.Dialect.Title, errors.Unwrap(err))
		case err != nil:
			return err
		}
	}
	return nil
}
