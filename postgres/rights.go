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

// denied finds out which rights the role lacks. err is the server's error; without one,
// denied returns nil if no right is lacking that a worker cannot work without.
func (s *Store) denied(ctx context.Context, err error) error {
	e := &DeniedError{Err: err}
	var objects []string
	missing, cannotWork := map[string][]string{}, false
	schema := ident(s.o.schema())
	if schema == `"dibs"` { // needs no quotes, and a message that names all tables is long
		schema = "dibs"
	}
	steps := []step{
		{sql: "select current_user::pg_catalog.text", row: func(scan func(...any) error) error { return scan(&e.Role) }},
		{sql: s.sql.get("rights"), args: []any{schema}, row: func(scan func(...any) error) error {
			var object, right string
			var optional bool
			err := scan(&object, &right, &optional)
			cannotWork = cannotWork || !optional
			if missing[object] == nil {
				objects = append(objects, object)
			}
			missing[object] = append(missing[object], right)
			return err
		}},
	}
	if failed := (readCommitted{s.sidePool}).run(ctx, steps...); failed != nil {
		return cmp.Or(err, failed)
	}
	if !cannotWork && err == nil {
		return nil
	}
	e.Role = pgx.Identifier{e.Role}.Sanitize()
	for len(objects) > 0 { // one statement for all objects that lack the same rights
		rights := missing[objects[0]]
		sequence := strings.Contains(objects[0], " ")
		var on, rest []string
		for _, o := range objects {
			if slices.Equal(missing[o], rights) && strings.Contains(o, " ") == sequence && (!sequence || len(on) == 0) {
				on = append(on, o)
			} else {
				rest = append(rest, o)
			}
		}
		e.Grants = append(e.Grants, "grant "+strings.Join(rights, ", ")+" on "+strings.Join(on, ", ")+" to "+e.Role)
		objects = rest
	}
	return e
}

// mayWork fails before the first claim if the role lacks a right that a worker needs: the
// claim might be allowed, but not the finish.
func (s *Store) mayWork(ctx context.Context) error {
	if s.rightsChecked.Load() {
		return nil
	}
	err := s.explain(ctx, s.denied(ctx, nil))
	if err == nil {
		s.rightsChecked.Store(true)
	}
	return err
}
