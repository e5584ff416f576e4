package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/diagnosis"
	"github.com/dibs-queue/dibs/internal/checks"
)

// DiagnoseTable looks for what keeps work on an adopted table from running well, as [Store.Diagnose] does for dibs' own:
// long transactions, sessions that hold up others at the table, its dead rows, and settings that hurt.
func DiagnoseTable(ctx context.Context, db *sql.DB, schema, table string) (diagnosis.Report, error) {
	var r diagnosis.Report
	texts, err := load("dibs")
	if err := cmp.Or(checks.Context(ctx), checks.Database(db), err); err != nil {
		return r, err
	}
	in := ident(schema)
	for _, look := range []struct {
		part, statement string
		args            []any
	}{
		{"the server's settings", "diagnose_server", []any{in + "." + ident(table)}},
		{"sessions", "diagnose_sessions", nil},
		{"locks", "diagnose_locks", []any{in}},
		{"what holds back vacuum", "diagnose_horizon", nil},
		{"dead rows", "diagnose_tables", []any{in, []string{}, []string{}}},
	} {
		facts, err := briefly(ctx, db, texts.get(look.statement), look.args)
		if err != nil && ctx.Err() != nil {
			return r, wrap("diagnose", err)
		}
		if err != nil {
			r.Skipped = append(r.Skipped, diagnosis.Skipped{Part: look.part, Err: wrap("diagnose", err)})
			continue
		}
		r.Looked, r.Facts = append(r.Looked, look.part), append(r.Facts, facts...)
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f diagnosis.Fact) bool {
		if f.Name == "now" {
			r.Now = time.UnixMicro(f.N).UTC()
		}
		ofTable := slices.Contains([]string{"lock", "dead_rows", "autovacuum_off", "bloat"}, f.Name)
		return f.Name == "now" || ofTable && f.About != table && f.About != "dibs_adopted"
	})
	return r, nil
}

// briefly runs a statement of a diagnosis, in a transaction that only reads.
func briefly(ctx context.Context, db *sql.DB, text string, args []any) (facts []diagnosis.Fact, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	if _, err := tx.ExecContext(ctx, lookBriefly); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f diagnosis.Fact
		var age float64
		if err := rows.Scan(&f.Name, &f.About, &f.ID, &f.N, &f.Of, &age, &f.Text); err != nil {
			return nil, err
		}
		f.Age = us(int64(age))
		facts = append(facts, f)
	}
	return facts, rows.Err()
}
