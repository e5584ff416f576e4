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

// SQL returns the statements that a store runs by the mapping, each with its parameters; the indexes that
// would help it; and the locks that a claim of up to n rows holds. It makes such a claim and rolls it back.
func SQL(ctx context.Context, db *sql.DB, m mapping.Mapping, n int) (string, error) {
	var text string
	err := try(ctx, db, m, func(t *trial) error {
		start := time.Now()
		jobs, err := t.claim(ctx, n)
		took := time.Since(start)
		if err != nil {
			return err
		}
		locks, err := t.database.locks(ctx, t, t.On, len(jobs))
		if err != nil {
			return err
		}
		run, err := t.database.claim(ctx, t, t.Plan)
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

// text lists the statements that a store runs. served names the index that claims use; empty: there is none.
func (p *subject) text(served string) string {
	a := p.advise()
	var b strings.Builder
	say := func(text string, args ...any) { fmt.Fprintf(&b, text, args...) }
	say("-- The statements that dibs runs on the table %s for queue %s.\n", p.Mapping.Table, p.Mapping.Queue)
	for _, line := range p.promises() {
		say("-- * %s\n", line)
	}
	if served != "" {
		say("\n-- Index %s gives rows in the order of claims.\n", served)
	} else {
		say("\n-- Advised: with this index claims read only the rows that they take, however large the table is.\n%s;\n", a.claimIndex)
	}
	switch x, ok := p.partialIndexOn(a.endColumn); {
	case ok:
		say("\n-- By index %s sweeps find the claims whose lease has ended.\n", x.Name)
	case a.runningIndex != "" && a.pageRoom != "":
		say("\n-- Only for large tables: each claim would have to write to this index. Sweeps, which look for claims whose lease has\n-- ended, read all unfinished rows; if these are often more than 100,000, the index lets sweeps read only running rows.\n-- %s;\n", a.runningIndex)
	case a.runningIndex != "":
		say("\n-- Advised: with this index sweeps, which look for claims whose lease has ended, read only running rows.\n%s;\n", a.runningIndex)
	}
	if a.pageRoom != "" {
		say("\n-- Advised: a claim writes no indexed column, so a row is updated in place if its page has room.\n-- Existing pages get that room when the table is rewritten (vacuum full).\n%s;\n", a.pageRoom)
	}
	if p.SideTable {
		say("\n-- The side table, which opening the mapping creates if it is missing.\n")
		if texts, err := p.SideTableSQL(); err == nil { // no error: it has been rendered before
			say("%s;\n", strings.Join(texts, ";\n"))
		}
	}
	for name, st := range p.Do.All() {
		say("\n-- == %s ==\n%s", name, st.Text)
		say("\n-- %s\n", parameters(st, p.Dialect.Mark))
	}
	return b.String()
}

// parameters names the parameters of a statement, each with its number.
func parameters(s *adopted.Statement, mark string) string {
	if len(s.Params) == 0 {
		return "no parameters"
	}
	return adopted.Joined(s.Params, ", ", func(i int, name string) string { return fmt.Sprintf("%s%d: %s", mark, i+1, name) })
}
