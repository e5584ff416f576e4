package advice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// refusedRows is how many of the next rows are tried, to find those that the table refuses to have claimed.
const refusedRows = 20

// manyAttempts stands for attempts without a limit.
const manyAttempts = 1_000_000

// refused reports rows that the table refuses to have claimed.
func (t *trial) refused(ctx context.Context) ([]Finding, error) {
	var jobs []*dibs.RawJob
	err := t.undone(ctx, func() (err error) {
		jobs, err = t.claim(ctx, refusedRows)
		return err
	})
	if err != nil && !adopted.Refused(err) {
		return nil, err
	}
	rows := t.tx.PassedOver()
	if len(rows) == 0 {
		return nil, nil
	}
	names := make([]string, min(3, len(rows)))
	for i := range names {
		names[i] = rows[i].Key
	}
	severity := SeverityWarning
	if len(jobs) == 0 {
		severity = SeverityError
	}
	return []Finding{{
		t.Queue, severity, "claim",
		fmt.Sprintf("%s refuses a claim of %d of the next %d rows (%s): %s", t.Dialect.Title, len(rows), len(rows)+len(jobs), strings.Join(names, ", "), rows[0].Error),
		"they are passed over, and tried again after pauses that grow; see the table's constraints and triggers, or change the rows",
	}}, nil
}

// Refused reports rows that the table refuses to have claimed, such as by a constraint or a trigger. It tries the next
// few rows, as [Try] does, and claims none.
func Refused(ctx context.Context, s *adopt.Store) (found []Finding, err error) {
	p, db := s.Inside()
	err = adopted.InTx(ctx, p.Dialect, db, func(q adopted.Querier) error {
		t := &trial{subjectOf(p), q, adopt.Within(p, q)}
		if found, err = t.refused(ctx); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		err = nil
	}
	return found, adopted.Classify("look for rows that are refused", err)
}

// errTried rolls a trial back.
var errTried = errors.New("only a trial")

// attempts reports that rows may be tried more often than the table allows them to count. It writes the highest number
// into some rows, and undoes that.
func (c *checker) attempts(ctx context.Context, t *trial) error {
	p := c.p
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
		keys := make([]string, len(p.Keys))
		for i, k := range p.Keys {
			keys[i] = adopted.Quote(k.Name)
		}
		all := strings.Join(keys, ", ")
		return t.undone(ctx, func() error {
			_, err := t.ExecContext(ctx, t.Dialect.Qualified(fmt.Sprintf("update %s as t set %s = %s where (%s) in (select t.%s from %s t where %s limit 100)",
				p.Table, name, value, all, strings.Join(keys, ", t."), p.Table, p.Waiting())))
			return err
		})
	}
	if err := set(name); err != nil { // the table refuses more than the number
		return ignoreRefused(err)
	}
	err := set(most)
	if adopted.Refused(err) {
		c.add(SeverityWarning, "max_attempts", "set max_attempts to what the table allows, and say what becomes of a row without attempts left (dead)",
			"attempts may pass what the table allows: %s, but %s refuses %s = %s: %v; such rows are passed over", limit, p.Dialect.Title, p.Claim.Attempts, most, err)
		return nil
	}
	return err
}

func ignoreRefused(err error) error {
	if adopted.Refused(err) {
		return nil
	}
	return err
}

// undone calls f and undoes what it has done. If a trigger has ended the whole transaction, as SQLite's raise(rollback)
// does, the error says so: whatever came after it would be kept.
func (t *trial) undone(ctx context.Context, f func() error) error {
	if _, err := t.ExecContext(ctx, "savepoint dibs_undone"); err != nil {
		return err
	}
	err := f()
	if _, ended := t.ExecContext(ctx, "rollback to savepoint dibs_undone"); ended != nil {
		if err == nil {
			return ended
		}
		return adopted.Invalid("claim", "%s refuses a claim of a row, and ends the whole transaction: %v; see the table's triggers", t.Dialect.Title, err)
	}
	if _, released := t.ExecContext(ctx, "release savepoint dibs_undone"); err == nil {
		err = released
	}
	return err
}
