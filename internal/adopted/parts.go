package adopted

import (
	"context"
	"database/sql"
	"maps"
	"strings"
)

// A database that cannot choose rows, write them and return them in one statement runs several, in one transaction. Their
// file has a line "-- then" between them.

const then = "\n-- then\n"

// Chosen is the name under which Query notes how many rows the first part of a statement has chosen.
const Chosen = "chosen"

// chooses reports whether a part that is not the last one chooses rows: each of its rows is an element of the batch of
// the parts after it.
func (s *Statement) chooses() bool {
	for line := range strings.Lines(s.Text) {
		if !strings.HasPrefix(line, "--") {
			return strings.HasPrefix(line, "select") || strings.HasPrefix(line, "with")
		}
	}
	return false
}

// lead runs all parts but the last one, and returns that one with its parameters. It is nil if a part has chosen no rows.
func (s *Statement) lead(ctx context.Context, q Querier, values map[string]any) (*Statement, map[string]any, error) {
	if len(s.Parts) == 0 {
		return s, values, nil
	}
	own, last := maps.Clone(values), len(s.Parts)-1
	for i, part := range s.Parts[:last] {
		if !part.chooses() {
			if _, err := q.ExecContext(ctx, part.Text, part.Args(own)...); err != nil {
				return nil, nil, err
			}
			continue
		}
		items, err := FirstOf(QueryAll(ctx, q, part.Text, part.Args(own)...))
		if i == 0 && values != nil {
			values[Chosen] = len(items)
		}
		if err != nil || len(items) == 0 {
			return nil, nil, err
		}
		own["batch"] = "[" + strings.Join(items, ",") + "]"
	}
	return s.Parts[last], own, nil
}

// Query runs the statement, and returns the rows of its last part; nil: it has chosen no rows.
func (s *Statement) Query(ctx context.Context, q Querier, values map[string]any) (*sql.Rows, error) {
	last, own, err := s.lead(ctx, q, values)
	if err != nil || last == nil {
		return nil, err
	}
	return q.QueryContext(ctx, last.Text, last.Args(own)...)
}

// Exec runs a statement that returns no rows.
func (s *Statement) Exec(ctx context.Context, q Querier, values map[string]any) error {
	last, own, err := s.lead(ctx, q, values)
	if err != nil || last == nil {
		return err
	}
	_, err = q.ExecContext(ctx, last.Text, last.Args(own)...)
	return err
}

// all lists the statements that the database gets.
func (s *Statement) all() []*Statement {
	if len(s.Parts) == 0 {
		return []*Statement{s}
	}
	return s.Parts
}
