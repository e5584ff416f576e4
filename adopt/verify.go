package adopt

import (
	"context"
	"database/sql"
	"errors"
)

// verify has the database check what only it can: that the conditions are boolean
// expressions over the table which do not write, and that they fit what claims and
// outcomes do to a row.
func (p *plan) verify(ctx context.Context, db *sql.DB) error {
	conds, err := p.conditions()
	if err != nil {
		return err
	}
	if err := p.d.verify(ctx, db, p, conds); err != nil {
		return err
	}
	return p.checkLife(ctx, db, conds)
}

// asQuery is a query that the database can only prepare if the condition is one
// boolean expression over the table.
func (p *plan) asQuery(c *condition) string {
	return "select 1 as one from " + p.Table + " t where (" + c.text + ")"
}

// refusedBy says that the database does not take the condition.
func (c *condition) refusedBy(d dialect, err error) error {
	if passes(err) {
		return err
	}
	return invalid(c.field, "%s does not take it as a condition: %v: %.200q", d.title, err, c.text)
}

// passes reports whether an error says nothing about the statement.
func passes(err error) bool {
	return unavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// prepared has the database prepare text, and forgets it again.
func prepared(ctx context.Context, q querier, text string) error {
	st, err := q.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	return st.Close()
}
