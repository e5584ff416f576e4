package adopted

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// sqliteHarmless lists the functions that are deterministic or return the time.
const sqliteHarmless = `
select distinct lower(name)
from pragma_function_list
where flags & 0x800 <> 0 or lower(name) in ('current_timestamp', 'current_date', 'current_time')`

// verify lets SQLite compile each condition, and checks the functions that the compiled program
// calls.
func (d sqliteDatabase) verify(ctx context.Context, db *sql.DB, p *Plan) error {
	var calls [][]string // condition, function
	byField := map[string]*Condition{}
	for _, c := range p.Conds {
		byField[c.Field] = c
		if err := prepared(ctx, db, p.asQuery(c)); err != nil {
			return c.refusedBy(p.Dialect, err)
		}
		program, err := QueryAll(ctx, db, "explain "+p.asQuery(c)) // columns: addr, opcode, p1, p2, p3, p4, p5, comment
		if err != nil {
			return c.refusedBy(p.Dialect, err)
		}
		for _, op := range program {
			if strings.HasSuffix(op[1], "Function") {
				name, _, _ := strings.Cut(op[5], "(")
				calls = append(calls, []string{c.Field, name})
			}
		}
	}
	if len(calls) == 0 {
		return nil
	}
	found, err := QueryAll(ctx, db, sqliteHarmless)
	if err != nil {
		return err
	}
	harmless := map[string]bool{}
	for _, f := range found {
		harmless[f[0]] = true
	}
	for _, call := range calls {
		if !harmless[strings.ToLower(call[1])] {
			return Invalid(call[0], "calls %s(), which may write or changes from call to call; a condition must only read: %.200q", call[1], byField[call[0]].text)
		}
	}
	return nil
}

func (sqliteDatabase) Peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(Querier) error) error {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(limited{db, short})
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return errTooLong
	}
	return err
}

// limited runs statements under a context that ends early.
type limited struct {
	Querier
	short context.Context
}

func (l limited) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	return l.Querier.QueryContext(l.short, query, args...)
}

func (l limited) PrepareContext(_ context.Context, query string) (*sql.Stmt, error) {
	return l.Querier.PrepareContext(l.short, query)
}
