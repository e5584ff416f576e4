package open

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
)

// Error is a problem with the database, and what to do next. It unwraps to the
// database's error, or to one of the errors of package dibs.
type Error struct {
	Problem string
	Next    string
	Err     error
}

func (e *Error) Error() string { return e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Explain turns an error of the database at u into an [*Error] if it knows the problem,
// and returns other errors, and nil, unchanged.
func Explain(u URL, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	for _, d := range databases() {
		if e := d.explain(u, err); e != nil {
			if e.Err == nil {
				e.Err = unavailable(err)
			}
			return e
		}
	}
	if errors.Is(err, dibs.ErrSchema) {
		// The store's error says what is missing; the sentinel's text adds nothing, and Next says
		// what is to be run.
		problem := strings.TrimSuffix(strings.Replace(err.Error(), dibs.ErrSchema.Error()+": ", "", 1), ": "+dibs.ErrSchema.Error())
		return &Error{
			Problem: strings.TrimSuffix(problem, "; run `dibs migrate`"),
			Next:    "'dibs migrate' makes or updates a schema, and its --print shows the SQL; a newer schema needs a newer dibs",
			Err:     err,
		}
	}
	return err
}

func unavailable(err error) error {
	if errors.Is(err, dibs.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
}
