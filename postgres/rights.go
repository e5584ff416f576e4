package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
)

// DeniedError says that the database's role lacks a right. It Is dibs.ErrDenied.
type DeniedError struct {
	Role string
	// Grants are the statements that give the role the rights that a worker needs and it
	// lacks. The owner of the schema can run them.
	Grants []string
	Err    error // the server's error; nil if the rights were checked before any call
}

func (e *DeniedError) Error() string {
	text := "the role " + e.Role + " lacks rights"
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	if len(e.Grants) > 0 {
		text += "; what a worker needs: " + strings.Join(e.Grants, "; ")
	}
	return text
}

// Unwrap returns the server's error.
func (e *DeniedError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, dibs.ErrDenied) true.
func (e *DeniedError) Is(target error) bool { return target == dibs.ErrDenied }

// denied finds out which rights the role lacks. err is the server's error. If it is nil,
// denied returns nil unless a right is lacking without which a worker cannot work.
func (s *Store) denied(ctx context.Context, err error) error {
	e := &DeniedError{Err: err}
	schema := ident(s.o.schema())
	if schema == `"dibs"` { // leave out the quotes: a message that names all tables is long
		schema = "dibs"
	}
	type lack struct {
		grant    string
		optional bool
	}
	var lacks []lack
	failed := (readCommitted{s.sidePool}).run(
		ctx, step{sql: "select current_user::pg_catalog.text"}.into(&e.Role),
		collect(s.step("rights", schema), &lacks, func(l *lack) []any { return []any{&l.grant, &l.optional} }),
	)
	if failed != nil {
		return cmp.Or(err, failed)
	}
	if err == nil && !slices.ContainsFunc(lacks, func(l lack) bool { return !l.optional }) {
		return nil
	}
	e.Role = pgx.Identifier{e.Role}.Sanitize()
	for _, l := range lacks {
		e.Grants = append(e.Grants, l.grant+" to "+e.Role)
	}
	return e
}
