package adopt

import (
	"context"
	"database/sql"
	"maps"
	"slices"
)

// prepare finds the table and checks the mapping against it, and its conditions
// with the database.
func prepare(ctx context.Context, db *sql.DB, m Mapping) (*plan, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if m.Table == "" {
		return nil, invalid("table", "is missing")
	}
	on, err := find(ctx, db, d, m.Table, false)
	if err != nil {
		return nil, err
	}
	p, err := compile(m, d, on)
	if err != nil {
		return nil, err
	}
	if err := p.verify(ctx, db); err != nil {
		return nil, err
	}
	p.do, err = p.statements()
	return p, err
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
func (p *plan) prepareAll(ctx context.Context, q querier) error {
	all := p.do.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch err := prepared(ctx, q, all[name].text); {
		case err != nil && passes(err):
			return err
		case err != nil:
			return invalid("mapping", "%s does not take the statement %q that it makes: %v", p.d.title, name, err)
		}
	}
	return nil
}

// lacksSideTable reports whether the mapping wants a side table that has yet to be made. It refuses one
// that is somebody else's before it reads anything of it: the triggers of a table run with the rights of whoever writes to it.
func (p *plan) lacksSideTable(ctx context.Context, q querier) (bool, error) {
	if !p.SideTable {
		return false, nil
	}
	if p.d.stranger != "" {
		owner, err := firstOf(queryAll(ctx, q, p.d.stranger, p.Side(), p.Table))
		if err != nil {
			return false, err
		}
		if len(owner) > 0 {
			return false, invalid("side_table", "would use %s, which is no table of this user's, of the owner of %s or of a superuser, but belongs to %s;"+
				" if it is meant, change its owner (alter table %s owner to …), else drop it", p.Side(), p.Table, owner[0], p.Side())
		}
	}
	_, err := queryAll(ctx, q, "select 1 from "+p.Side()+" limit 0")
	return err != nil, nil
}

// makeSideTable makes the side table and its index.
func (p *plan) makeSideTable(ctx context.Context, q querier) error {
	texts, err := p.sideTable()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := q.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// sideTable is the SQL that makes the side table and its index.
func (p *plan) sideTable() (texts []string, err error) {
	for _, name := range []string{"lease_table", "lease_index"} {
		st, err := render(p.d, name, piece{plan: p})
		if err != nil {
			return nil, err
		}
		texts = append(texts, st.text)
	}
	return texts, nil
}

