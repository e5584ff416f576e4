package adopt

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
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
	return invalid(c.field, "%s does not take it as a condition: %v: %.200q", d.title(), err, c.text)
}

// passes reports whether an error says nothing about the statement.
func passes(err error) bool {
	return unavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// all are the statements by their names.
func (s *statements) all() map[string]*statement {
	all := map[string]*statement{
		"claim": s.claim, "mark": s.mark, "turn": s.turn, "running": s.running, "alone": s.alone, "rates": s.rates, "resume": s.resume, "fetch": s.fetch, "extend": s.extend,
		"completed": s.completed, "dead": s.dead, "cancelled": s.cancelled, "put_back": s.putBack,
		"late": s.late, "late_dead": s.lateDead, "lease": s.lease, "lease_held": s.held, "lease_late": s.overdue,
		"lease_settle": s.settle, "lease_drop": s.drop, "lease_extend": s.move, "lease_again": s.again,
		"lease_forget": s.forget, "holds": s.holds, "open": s.open, "look": s.look, "lease_requeue": s.requeue, "list": s.list, "counts": s.counts,
	}
	maps.DeleteFunc(all, func(_ string, st *statement) bool { return st == nil })
	return all
}

// prepareAll has the database prepare every statement, so that none fails later
// for what the mapping says.
func (p *plan) prepareAll(ctx context.Context, q querier, s *statements) error {
	all := s.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch err := prepared(ctx, q, all[name].text); {
		case err != nil && passes(err):
			return err
		case err != nil:
			return invalid("mapping", "%s does not take the statement %q that it makes: %v", p.d.title(), name, err)
		}
	}
	return nil
}

// prepared has the database prepare text, and forgets it again.
func prepared(ctx context.Context, q querier, text string) error {
	st, err := q.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	return st.Close()
}
