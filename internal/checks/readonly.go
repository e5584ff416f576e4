package checks

import "github.com/dibs-queue/dibs"

// ReadOnlyError is a call that would have written into a database that only reads: it has done nothing.
// It Is dibs.ErrUnavailable. Why is what a user is told.
type ReadOnlyError struct {
	Why string
	Err error // the error of a statement that the database refused; nil: the store asked beforehand whether it can write
}

// These say why a database is read-only.
const (
	ReadOnlyServer = "the PostgreSQL server is read-only: it is a standby, or default_transaction_read_only is on"
	ReadOnlyFile   = "the file or its directory cannot be written; check owner and permissions"
)

func (e *ReadOnlyError) Error() string {
	if e.Err == nil {
		return e.Why
	}
	return e.Why + ": " + e.Err.Error()
}

// Unwrap returns the database's error.
func (e *ReadOnlyError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, dibs.ErrUnavailable) true.
func (e *ReadOnlyError) Is(target error) bool { return target == dibs.ErrUnavailable }
