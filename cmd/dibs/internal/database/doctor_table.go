package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

// lookAtTable finds what is wrong with an adopted table, and with the database around it.
func (d *medic) lookAtTable(ctx context.Context) error {
	t := d.a.Adopted
	plan, db := t.Inside()
	before := time.Now()
	var r admin.Diagnosis
	var err error
	switch plan.Dialect.Title {
	case adopted.SQLite.Title:
		r, err = sqlite.DiagnoseFile(ctx, db)
	case adopted.MariaDB.Title:
		r, err = mariaDBTable(ctx, db)
	default:
		r, err = postgres.DiagnoseTable(ctx, db, plan.On.Schema, plan.On.Name)
	}
	if err != nil {
		return err
	}
	d.clock(r.Now, before, time.Now())
	brief, cancel := context.WithTimeout(ctx, queuesWithin) // somebody may have locked the table
	defer cancel()
	err = d.rows(brief, t, r.Now)
	if errors.Is(err, dibs.ErrDenied) || brief.Err() != nil && ctx.Err() == nil {
		d.skip("the rows", err)
	} else if err != nil {
		return err
	}
	d.wordFacts(r, []string{"the table " + name(plan.Mapping.Table)})
	return nil
}

// mariaDBTable looks at nothing of the server but its clock.
func mariaDBTable(ctx context.Context, db *sql.DB) (r admin.Diagnosis, err error) {
	var now int64
	err = db.QueryRowContext(ctx, "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))").Scan(&now)
	r.Now = time.UnixMicro(now)
	r.Skipped = []admin.Skipped{{Part: "the server, transactions and locks", Err: errors.New("'dibs doctor' without --table looks at them")}}
	return r, adopted.Classify("diagnose", err)
}

// rows finds rows that do not run as they should.
func (d *medic) rows(ctx context.Context, t *cmdline.AdoptedTable, now time.Time) error {
	all, err := t.Stats(ctx)
	if err != nil {
		return err
	}
	s, advise := all[0], func(what string, find func(context.Context, *adopt.Store) ([]advice.Finding, error)) error {
		found, err := find(ctx, t.Store)
		for _, f := range found {
			d.advised(what, f, all[0])
		}
		return err
	}
	if err := advise("stuck", advice.Stuck); err != nil {
		return err
	}
	before := len(d.Findings)           // what follows explains why due rows wait
	full := advise("full", advice.Full) // an error of one search leaves the findings of the others
	refused := advise("refused", advice.Refused)
	late := d.lateRows(ctx, t, now)
	if err := cmp.Or(full, refused, late); err != nil {
		return err
	}
	if due := s.Waiting - s.Scheduled; due > 0 && s.OldestAge >= d.maxWait && len(d.Findings) == before {
		waits := fmt.Sprintf("%s due, the oldest for %s", words.Verb(due, "row is", "rows are"), words.Roughly(s.OldestAge))
		if s.Running == 0 {
			d.wrong("no_worker", d.startWorker(), "%s, and none is in progress: nobody seems to work the table", waits)
		} else {
			d.wrong("waits", d.onTable("ls", "--state running"), "%s, and %s in progress: more workers are needed, or what they do hangs", waits, words.Verb(s.Running, "row is", "rows are"))
		}
	}
	if s.Dead > 0 {
		d.note("dead", d.onTable("ls", "--state dead"), "%s in the side table: attempts at them failed for good", words.Verb(s.Dead, "row is dead", "rows are dead"))
	}
	return advise("ended_dead", advice.Ended)
}

// advised words a finding of the advice. What holds up all due rows is wrong once the oldest waits for long, if it is known
// how long.
func (d *medic) advised(what string, f advice.Finding, s admin.QueueStats) {
	if f.Advice == "" { // the table is too large to look
		d.Skipped = append(d.Skipped, f.Field+": "+f.Text)
		return
	}
	report := d.note
	long := s.OldestAge >= d.maxWait || !d.a.Adopted.Known().Oldest
	if f.Severity == advice.SeverityError || f.Severity == advice.SeverityWarning && (what == "stuck" || what == "full" && long) {
		report = d.wrong
	}
	next := f.Advice
	if what == "full" || what == "refused" {
		next = d.onTable("ls", map[string]string{"full": "--state running", "refused": "--state waiting"}[what])
	}
	report(what, next, "%s", f.Text)
}

// lateRows finds rows whose lease has ended, and that nobody takes back.
func (d *medic) lateRows(ctx context.Context, t *cmdline.AdoptedTable, now time.Time) error {
	page, err := t.List(ctx, admin.Filter{State: dibs.Running, Limit: 1000})
	if err != nil {
		return err
	}
	late, oldest := 0, time.Duration(0)
	for _, j := range page.Jobs {
		if j.LeaseUntil.IsZero() || now.Sub(j.LeaseUntil) < lateLease {
			continue
		}
		late++
		oldest = max(oldest, now.Sub(j.LeaseUntil))
	}
	if late > 0 {
		d.wrong("late_claims", d.startWorker(), "the leases of %s have ended, the first %s ago, and nobody has taken them back: no worker of dibs seems to work the table", words.Plural(late, "row"), words.Roughly(oldest))
	}
	return nil
}

// lateLease is how long after the end of a lease a worker should have taken the row back: sweeps are 10 s apart at most.
const lateLease = 30 * time.Second

// onTable is a command on the adopted table.
func (d *medic) onTable(verb, flags string) string {
	return "dibs " + verb + " --table " + words.ShellWord(d.a.Table) + " " + flags
}

func (d *medic) startWorker() string {
	return "dibs work --table " + words.ShellWord(d.a.Table) + " -- PROGRAM"
}
