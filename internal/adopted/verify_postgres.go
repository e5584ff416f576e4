package adopted

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// postgresCalls lists the volatile functions that the view dibs_condition calls, and whether
// it locks rows. It reads PostgreSQL's parse tree of the view and of the views within.
var postgresCalls = qualify.Text(`
with recursive v (action) as (
    select w.ev_action::text
    from pg_rewrite w
    where w.ev_class = to_regclass('pg_temp.dibs_condition')
    union
    select w.ev_action::text
    from v
    cross join regexp_matches(v.action, ':relid (\d+)', 'g') m
    join pg_class c on c.oid = m[1]::oid and c.relkind = 'v'
    join pg_rewrite w on w.ev_class = c.oid and w.ev_type = '1'
)
select distinct f.oid::regprocedure::text, 'f'
from v
cross join regexp_matches(v.action, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') m
join pg_proc f on f.oid = m[1]::oid
where f.provolatile = 'v'
union all
select '', 't' from v where v.action ~~ '%{ROWMARKCLAUSE%'`)

// verify lets PostgreSQL prepare each condition, and checks the functions that conditions call.
// For this it creates a temporary view, in a transaction that it rolls back.
func (d postgresDatabase) verify(ctx context.Context, db *sql.DB, p *Plan) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to keep
	for _, c := range p.Conds {
		if err := prepared(ctx, tx, p.asQuery(c)); err != nil {
			return c.refusedBy(p.Dialect, err)
		}
		if c.plain() {
			continue
		}
		if err := d.verifyCalls(ctx, tx, p, c); err != nil {
			return err
		}
	}
	return nil
}

// postgresStranger finds an owner of $1 who cannot be trusted. Those who can have this user's
// rights anyway, or get them by a trigger on the adopted table $2: this user, its roles, the
// owner of $2, superusers. A superuser is a member of every role, so its roles do not count.
var postgresStranger = qualify.Text(`
select quote_ident(r.rolname)
from pg_class c
join pg_roles r on r.oid = c.relowner
where (c.oid = to_regclass($1)::oid)
    and (
        not (c.relkind in ('r', 'p'))
        or not (r.rolsuper or (r.rolname = current_user) or exists (
            select
            from pg_roles u
            where (u.rolname = current_user) and not u.rolsuper and pg_has_role(c.relowner, 'usage')
        ) or exists (
            select
            from pg_class t
            where (t.oid = to_regclass($2)::oid) and (t.relowner = c.relowner)
        ))
    )`)

func (d postgresDatabase) verifyCalls(ctx context.Context, tx *sql.Tx, p *Plan, c *Condition) error {
	_, err := tx.ExecContext(ctx, "create temporary view dibs_condition as "+p.asQuery(c))
	switch {
	case Forbidden(err):
		return Invalid(c.Field, "calls functions, and checking that they only read needs a temporary view: %v;"+
			" grant TEMPORARY on the database to this user, or write the condition without functions and casts", err)
	case err != nil:
		return c.refusedBy(p.Dialect, err)
	}
	found, err := QueryAll(ctx, tx, postgresCalls)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		f := found[0]
		if Yes(f[1]) {
			return Invalid(c.Field, "locks rows; a condition must only read: %.200q", c.text)
		}
		return Invalid(c.Field, "calls %s, which may write or changes from call to call (it is volatile);"+
			" if it only reads, declare it so: alter function %s stable", f[0], f[0])
	}
	_, err = tx.ExecContext(ctx, "drop view pg_temp.dibs_condition")
	return err
}

func (postgresDatabase) Peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(Querier) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to keep
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("set local statement_timeout = %d", limit.Milliseconds())); err != nil {
		return err
	}
	return f(tx)
}
