package mysql

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
)

// StatementNames lists the statements that the store runs.
func (s *Store) StatementNames() []string {
	return slices.Sorted(maps.Keys(s.sql.Statements))
}

// Explain reads the plans of the parts of a statement. arg gives the argument for each number.
func (s *Store) Explain(ctx context.Context, name string, arg func(n int) any, each func(part, table, kind, extra string)) error {
	c, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, p := range parse(s.sql.Statements.Get(name)).parts {
		args := make([]any, 0, len(p.order))
		for _, at := range p.order {
			args = append(args, arg(at.place+1))
		}
		rows, err := c.QueryContext(ctx, "explain "+p.text, args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			var table, kind, extra sql.NullString
			var other any
			if err := rows.Scan(&other, &other, &table, &kind, &other, &other, &other, &other, &other, &extra); err != nil {
				return errors.Join(err, rows.Close())
			}
			each(p.text, table.String, kind.String, extra.String)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}
