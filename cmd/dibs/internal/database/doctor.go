package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func newDoctorCmd(a *app) *cobra.Command {
	wait := cmdline.DurationFlag(5 * time.Minute)
	cmd := a.Adoptable(&cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong, and what to do about it",
		Long: `Say what keeps jobs from running well, worst first, each with the next command: queues
without a worker, jobs that wait long, die or lose their workers, late upkeep and schedules;
in PostgreSQL and MariaDB long transactions, who holds up whom, old rows, and settings that hurt;
in SQLite who locks the file, readers that never end, and where the file is.

What is WRONG needs somebody now, and gives exit code 1; a NOTE is worth knowing. Some commands are
SQL, for psql or mariadb.

It only reads, by short statements that lock nothing, and takes about a second however many jobs
there are. What the role may not see is named. To look at every row: 'dibs check'.

With --table it looks at an adopted table: rows that nobody takes, that wait long or for full
groups, that the table refuses to have claimed (it tries the next 20, and rolls that back), whose
leases nobody takes back, or that are dead; and at the database around it.`,
		Example: `  dibs doctor
  dibs doctor --table orders.yaml
  dibs doctor --json | jq -r '.findings[] | select(.severity == "wrong") | .text'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				d := medic{a: a, maxWait: time.Duration(wait), Findings: []ailment{}, Looked: []string{}, Skipped: []string{}}
				look := d.lookAtTable
				if own, ok := db.(admin.Database); ok {
					look = func(ctx context.Context) error { return d.look(ctx, own) }
				}
				if err := look(cmd.Context()); err != nil {
					return err
				}
				return d.report()
			})
		},
	})
	cmd.Flags().Var(&wait, "max-wait", "how long due jobs may wait, `DURATION`, before that is wrong")
	return cmd
}

// ailment is a finding of the doctor.
type ailment struct {
	Severity string `json:"severity"` // severityWrong or severityNote
	Name     string `json:"name"`
	Text     string `json:"text"`
	Next     string `json:"next"`
}

const (
	severityWrong = "wrong" // somebody should look now
	severityNote  = "note"  // worth knowing
)

// medic gathers what is wrong.
type medic struct {
	a       *app
	maxWait time.Duration
	facts   []admin.Fact

	Findings []ailment `json:"findings"`
	Looked   []string  `json:"looked"`  // what it has looked at
	Skipped  []string  `json:"skipped"` // what it could not look at, and why
}

// diagnoser is a database that can say what is wrong with it.
type diagnoser interface {
	Diagnose(ctx context.Context, parts ...string) (admin.Diagnosis, error)
}

// queuesWithin is how long it may take to read the queues.
const queuesWithin = 5 * time.Second

func (d *medic) look(ctx context.Context, db admin.Database) error {
	before := time.Now()
	var r admin.Diagnosis
	if own, ok := db.(diagnoser); ok {
		var err error
		if r, err = own.Diagnose(ctx); err != nil {
			return err
		}
	} else {
		d.Skipped = append(d.Skipped, "sessions, locks, tables and settings: dibs cannot look at them on this kind of database yet")
	}
	after := time.Now()
	var q queueLook
	brief, cancel := context.WithTimeout(ctx, queuesWithin) // somebody may have locked a table
	defer cancel()
	read := q.read(brief, db, d.maxWait)
	died := q.readDied(brief, db, r.Facts) // read even if the queues could not be
	if err := cmp.Or(read, died); errors.Is(err, dibs.ErrDenied) || brief.Err() != nil && ctx.Err() == nil {
		d.skip("the queues", err)
	} else if err != nil {
		return err
	}
	d.facts = r.Facts
	d.queues(&q)
	d.jobs(&q, r.Facts)
	d.clock(r.Now, before, after)
	d.wordFacts(r, q.counts())
	return nil
}

// wordFacts words a report, after what else was looked at, and sorts all findings.
func (d *medic) wordFacts(r admin.Diagnosis, counts []string) {
	for _, f := range r.Facts {
		if found, ok := d.word(f, r.Facts); ok {
			d.Findings = append(d.Findings, found)
		}
	}
	d.Looked = slices.Concat(counts, r.Looked, d.Looked)
	for _, s := range r.Skipped {
		d.skip(s.Part, s.Err)
	}
	slices.SortStableFunc(d.Findings, func(a, b ailment) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(stops(b), stops(a)))
	})
}

// stops returns 1 for a finding that stops all work, which is listed before the others, else 0.
func stops(f ailment) int {
	if f.Severity == severityWrong && slices.Contains([]string{"damaged", "disk_full", "recovery", "connections", "lock", "standby_wait", "writer"}, f.Name) {
		return 1
	}
	return 0
}

func (d *medic) skip(part string, err error) {
	reason := err.Error()
	switch {
	case errors.Is(err, dibs.ErrDenied):
		reason = "the role lacks a right"
		var denied *open.Error
		if errors.As(open.Explain(d.a.URL(), err), &denied) {
			reason = denied.Problem
		}
	case errors.Is(err, dibs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		reason = "it took too long, or somebody has locked a table"
	}
	d.Skipped = append(d.Skipped, part+": "+reason)
}

func (d *medic) wrong(name, next, format string, args ...any) {
	d.Findings = append(d.Findings, ailment{severityWrong, name, fmt.Sprintf(format, args...), next})
}

func (d *medic) note(name, next, format string, args ...any) {
	d.Findings = append(d.Findings, ailment{severityNote, name, fmt.Sprintf(format, args...), next})
}

// clock compares the clocks. The database's was read between two moments of this one.
func (d *medic) clock(database, before, after time.Time) {
	const most = 2 * time.Second
	switch {
	case database.IsZero():
	case database.Before(before.Add(-most)):
		d.note("clock", "timedatectl", "the clock of this machine is %s ahead of the database's: start times that programs compute here come late", words.Roughly(before.Sub(database)))
	case database.After(after.Add(most)):
		d.note("clock", "timedatectl", "the clock of this machine is %s behind the database's: start times that programs compute here come early", words.Roughly(database.Sub(after)))
	}
}

// report prints the findings.
func (d *medic) report() error {
	wrong := 0
	for _, f := range d.Findings {
		if f.Severity == severityWrong {
			wrong++
		}
	}
	if d.a.JSON {
		if err := d.a.WriteJSON(d); err != nil {
			return err
		}
	} else {
		d.write(wrong)
	}
	if wrong > 0 {
		return &cmdline.CodeError{Code: cmdline.ExitFailure}
	}
	return nil
}

func (d *medic) write(wrong int) {
	for _, f := range d.Findings {
		mark := d.a.Paint(term.Yellow, "NOTE   ")
		if f.Severity == severityWrong {
			mark = d.a.Paint(term.Red, "WRONG  ")
		}
		d.a.Say("%s%s", mark, d.wrapped(f.Text, 7))
		d.a.Say("       next: %s\n", words.Printable(f.Next))
	}
	switch notes := len(d.Findings) - wrong; {
	case wrong > 0:
		d.a.Say("%s", d.wrapped(fmt.Sprintf("%s wrong, %d worth knowing.", words.Verb(int64(wrong), "thing is", "things are"), notes), 0))
	case notes > 0:
		d.a.Say("Nothing is wrong; %s worth knowing.", words.Verb(int64(notes), "thing is", "things are"))
	default:
		d.a.Say("Nothing is wrong.")
	}
	d.a.Say("%s", d.wrapped("Looked at: "+strings.Join(d.Looked, ", ")+".", 0))
	for _, s := range d.Skipped {
		d.a.Say("%s", d.wrapped("Not looked at: "+s, 0))
	}
}

// wrapped breaks a text into lines that fit, all but the first indented.
func (d *medic) wrapped(s string, indent int) string {
	lines := strings.Split(text.WrapSoft(words.Printable(s), max(d.a.Width-indent, 20)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}
