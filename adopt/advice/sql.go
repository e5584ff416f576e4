package advice

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// SQL is all that a store runs by the mapping, with the indexes that are advised and with what a claim
// locks: one of up to n rows is tried for that, and rolled back. Parameters are listed below each statement.
func SQL(ctx context.Context, db *sql.DB, m mapping.Mapping, n int) (string, error) {
	var text string
	err := try(ctx, db, m, func(t *trial) error {
		start := time.Now()
		jobs, err := t.claim(ctx, n)
		took := time.Since(start)
		if err != nil {
			return err
		}
		locks, err := t.of.locks(ctx, t, t.On, len(jobs))
		if err != nil {
			return err
		}
		run, err := t.of.claim(ctx, t, t.Plan)
		if err != nil {
			return err
		}
		var b strings.Builder
		b.WriteString(t.text(run.index))
		fmt.Fprintf(&b, "\n-- == locks ==\n-- A claim of %d rows was tried, and rolled back. It took %.2f ms, and held until its end:\n", len(jobs), float64(took.Microseconds())/1000)
		for _, l := range locks {
			fmt.Fprintf(&b, "-- * %s\n", l)
		}
		text = b.String()
		return nil
	})
	return text, adopted.Classify("sql", err)
}

// text is all that a store runs on the table. served is the index that serves claims, if there is one.
func (p *subject) text(served string) string {
	a := p.advise()
	var b strings.Builder
	say := func(text string, args ...any) { fmt.Fprintf(&b, text, args...) }
	say("-- What dibs runs on the table %s, by the mapping of queue %s.\n", p.Mapping.Table, p.Mapping.Queue)
	for _, line := range p.promises() {
		say("-- * %s\n", line)
	}
	if served != "" {
		say("\n-- Index %s gives rows in the order of claims.\n", served)
	} else {
		say("\n-- Advised: claims read the rows that they take, however many there are.\n%s;\n", a.claim)
	}
	switch x, ok := p.leads(a.late); {
	case ok:
		say("\n-- Index %s leads sweeps to the claims whose lease is over.\n", x.Name)
	case a.running != "" && a.room != "":
		say("\n-- Not advised as it stands: each claim would have to write to it. Sweeps, which look for claims whose lease is\n-- over, read all that is unfinished; where that is often more than 100,000 rows, this lets them read the running ones.\n-- %s;\n", a.running)
	case a.running != "":
		say("\n-- Advised: sweeps, which look for claims whose lease is over, read only running rows.\n%s;\n", a.running)
	}
	if a.room != "" {
		say("\n-- Advised: a claim writes no column of an index, so with room in its page a row is changed in place.\n-- Pages that are there already get it when the table is rewritten (vacuum full).\n%s;\n", a.room)
	}
	if p.SideTable {
		say("\n-- Made by opening the mapping, if it is missing: the side table.\n")
		if texts, err := p.SideTableSQL(); err == nil { // it has been rendered before
			say("%s;\n", strings.Join(texts, ";\n"))
		}
	}
	for name, st := range p.Do.All() {
		say("\n-- == %s ==\n%s", name, st.Text)
		say("\n-- %s\n", numbers(st, p.Dialect.Mark))
	}
	return b.String()
}

// numbers says which parameter has which number.
func numbers(s *adopted.Statement, mark string) string {
	if len(s.Params) == 0 {
		return "no parameters"
	}
	parts := make([]string, len(s.Params))
	for i, name := range s.Params {
		parts[i] = fmt.Sprintf("%s%d: %s", mark, i+1, name)
	}
	return strings.Join(parts, ", ")
}
