package adopted

import (
	"context"
	"database/sql"
	"iter"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

// Prepare finds the table, checks the mapping against it, and lets the database check the
// conditions.
func Prepare(ctx context.Context, db *sql.DB, m mapping.Mapping) (*Plan, error) {
	d, err := DialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if m.Table == "" {
		return nil, Invalid("table", "is missing")
	}
	on, err := Find(ctx, db, d, m.Table, false)
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
	p.Do, err = p.statements()
	return p, err
}

// All lists the statements that the plan has, with their names, in the order of a job's life.
func (s *Statements) All() iter.Seq2[string, *Statement] {
	return func(yield func(string, *Statement) bool) {
		for _, x := range []struct {
			name string
			st   *Statement
		}{
			{"alone", s.Alone},
			{"running", s.Running},
			{"turn", s.Turn},
			{"claim", s.Claim},
			{"lease", s.Lease},
			{"mark", s.Mark},
			{"try_claim", s.TryClaim},
			{"try_mark", s.TryMark},
			{"resume", s.Resume},
			{"lease_again", s.Again},
			{"extend", s.Extend},
			{"lease_extend", s.Move},
			{"lease_held", s.Held},
			{"completed", s.Completed},
			{"dead", s.Dead},
			{"cancelled", s.Cancelled},
			{"put_back", s.PutBack},
			{"open", s.Open},
			{"lease_drop", s.Drop},
			{"lease_settle", s.Settle},
			{"holds", s.Holds},
			{"late", s.Late},
			{"late_keys", s.LateKeys},
			{"late_named", s.LateNamed},
			{"late_dead", s.LateDead},
			{"late_dead_keys", s.LateDeadKeys},
			{"late_dead_named", s.LateDeadNamed},
			{"lease_late", s.Overdue},
			{"lease_forget", s.Forget},
			{"lease_requeue", s.Requeue},
			{"fetch", s.Fetch},
			{"look", s.Look},
			{"list", s.List},
			{"counts", s.Counts},
			{"full", s.Full},
			{"rates", s.Rates},
		} {
			again := x.name == "try_claim" && x.st == s.Claim || x.name == "try_mark" && x.st == s.Mark
			if x.st != nil && !again && !yield(x.name, x.st) {
				return
			}
		}
	}
}

// PrepareAll lets the database prepare every statement, so that an error of the mapping shows
// now and not in a later call.
func (p *Plan) PrepareAll(ctx context.Context, q Querier) error {
	for name, st := range p.Do.All() {
		for _, part := range st.all() {
			switch err := prepared(ctx, q, part.Text); {
			case err != nil && Passes(err):
				return err
			case err != nil:
				return Invalid("mapping", "%s refuses the statement %q made from it: %v", p.Dialect.Title, name, err)
			}
		}
	}
	return nil
}

// LacksSideTable reports whether the mapping needs a side table that does not exist yet. It refuses a side table of
// another owner before it reads from it: a table's triggers run with the rights of the user who writes to it.
func (p *Plan) LacksSideTable(ctx context.Context, q Querier) (bool, error) {
	if !p.SideTable {
		return false, nil
	}
	if p.Dialect.stranger != "" {
		owner, err := FirstOf(QueryAll(ctx, q, p.Dialect.stranger, p.Side(), p.Table))
		if err != nil {
			return false, err
		}
		if len(owner) > 0 {
			return false, Invalid("side_table", "would use %s, which belongs neither to this user nor to the owner of %s nor to a superuser, but to %s;"+
				" if it is the right table, change its owner (alter table %s owner to …), else drop it", p.Side(), p.Table, owner[0], p.Side())
		}
	}
	_, err := QueryAll(ctx, q, p.Dialect.Qualified("select 1 from "+p.Side()+" limit 0"))
	return err != nil, nil
}

// MakeSideTable creates the side table and its index.
func (p *Plan) MakeSideTable(ctx context.Context, q Querier) error {
	return p.makeSideTable(ctx, q, false)
}

// TrySideTable creates a side table that does not outlive the session's transaction.
func (p *Plan) TrySideTable(ctx context.Context, q Querier) error {
	return p.makeSideTable(ctx, q, true)
}

func (p *Plan) makeSideTable(ctx context.Context, q Querier, trial bool) error {
	texts, err := p.sideTableSQL(trial)
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

// SideTableSQL returns the statements that create the side table and its index.
func (p *Plan) SideTableSQL() (texts []string, err error) { return p.sideTableSQL(false) }

func (p *Plan) sideTableSQL(trial bool) (texts []string, err error) {
	for _, name := range []string{"lease_table", "lease_index"} {
		if p.Dialect.files().Lookup(name+".sql") == nil { // the table has its index
			continue
		}
		st, err := render(p.Dialect, name, piece{Plan: p, Trial: trial})
		if err != nil {
			return nil, err
		}
		texts = append(texts, st.Text)
	}
	return texts, nil
}
