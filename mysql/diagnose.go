package mysql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// lookWithin is how long each look of Diagnose may take.
const lookWithin = 5 * time.Second

// Diagnose looks for what keeps jobs from running well: jobs that die or lose their leases, late upkeep, jobs that flows
// wait for, rows that nobody takes from the inbox, settings of the server that hurt, long transactions, and sessions
// that hold up others.
// Each look is one statement that only reads and locks nothing; what takes over 5 s is skipped. The look at
// transactions and locks needs the privilege PROCESS, and is skipped without it. With names of parts, as Looked of a report
// has them, it looks only at these. The command dibs doctor puts it into words.
func (s *Store) Diagnose(ctx context.Context, parts ...string) (r admin.Diagnosis, err error) {
	if err := s.ready(ctx); err != nil {
		return r, checks.Failed("diagnose", err)
	}
	if err := s.readClock(ctx, time.Now()); err != nil {
		return r, checks.Failed("diagnose", classify(s.failed(ctx, err)))
	}
	r.Now = checks.Time(s.clock.now())
	for _, look := range []struct{ part, statement string }{
		{"jobs and upkeep", "diagnose_jobs"},
		{"the server", "diagnose_server"},
		{"transactions and locks", "diagnose_sessions"},
	} {
		if len(parts) > 0 && !slices.Contains(parts, look.part) {
			continue
		}
		facts, err := s.facts(ctx, look.statement)
		switch err = classify(err); {
		case err == nil:
			r.Looked, r.Facts = append(r.Looked, look.part), append(r.Facts, facts...)
		case ctx.Err() == nil && (errors.Is(err, dibs.ErrDenied) || errors.Is(err, context.DeadlineExceeded)):
			r.Skipped = append(r.Skipped, admin.Skipped{Part: look.part, Err: checks.Failed("diagnose", err)})
		default:
			return r, checks.Failed("diagnose", s.failed(ctx, err))
		}
	}
	return r, nil
}

// facts looks at one part.
func (s *Store) facts(ctx context.Context, statement string) (facts []admin.Fact, err error) {
	ctx, stop := context.WithTimeout(ctx, lookWithin)
	defer stop()
	err = rowstore.Each(ctx, conn{s.any().pool, s.joined()}, s.sql.Statements.Get(statement), func(rows *sql.Rows) error {
		var f admin.Fact
		var age int64
		err := rows.Scan(&f.Name, reads.Text(&f.About), &f.ID, &f.N, &f.Of, &age, reads.Text(&f.Text))
		f.Age = time.Duration(age) * time.Microsecond
		facts = append(facts, f)
		return err
	})
	return facts, err
}
