package adopted

import (
	"context"
	"database/sql"
	"errors"
)

// verify lets the database check that the conditions are boolean expressions over the table
// which do not write, and that they fit what claims and outcomes do to a row.
func (p *Plan) verify(ctx context.Context, db *sql.DB) error {
	if err := p.Dialect.verify(ctx, db, p); err != nil {
		return err
	}
	return p.checkLife(ctx, db)
}

// asQuery is a query that the database can prepare only if the condition is one boolean
// expression over the table.
func (p *Plan) asQuery(c *Condition) string {
	return "select 1 as one from " + p.Table + " t where (" + c.text + ")"
}

// refusedBy turns the database's error on a condition into one that names the field.
func (c *Condition) refusedBy(d Dialect, err error) error {
	if Passes(err) {
		return err
	}
	return Invalid(c.Field, "%s refuses it as a condition: %v: %.200q", d.Title, err, c.text)
}

// Passes reports whether an error may pass: it does not mean that the statement is wrong.
func Passes(err error) bool {
	return unavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// prepared lets the database prepare a statement, and closes it again.
func prepared(ctx context.Context, q Querier, text string) error {
	st, err := q.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	return st.Close()
}
