package adopted

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// errBad makes database/sql discard a connection.
var errBad = driver.ErrBadConn

// These interfaces read error codes from the drivers of PostgreSQL and SQLite without importing one.
type (
	sqlState   interface{ SQLState() string }
	resultCode interface{ Code() int }
	unsent     interface{ SafeToRetry() bool } // pgx: nothing was sent before the connection closed
)

// passing holds SQLite's primary result codes for conditions that may pass: BUSY, LOCKED, NOMEM, READONLY, IOERR,
// FULL, CANTOPEN, PROTOCOL.
var passing = map[int]bool{5: true, 6: true, 7: true, 8: true, 10: true, 13: true, 14: true, 15: true}

func busy(err error) bool {
	var lite resultCode
	return errors.As(err, &lite) && lite.Code()&0xff == 5
}

// Invalid says what is wrong with a field of a mapping, or of a request.
func Invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// Classify adds the operation to an error, and ErrUnavailable if a later attempt may succeed.
// It judges by codes, never by text.
func Classify(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{dibs.ErrInvalid, dibs.ErrLeaseLost, dibs.ErrUnavailable, dibs.ErrClosed, dibs.ErrNotFound, errors.ErrUnsupported} {
		if errors.Is(err, known) {
			return err
		}
	}
	err = checks.Connecting(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case unavailable(err):
		return checks.Failed(op, fmt.Errorf("%w: %w", dibs.ErrUnavailable, err))
	}
	return checks.Failed(op, err)
}

func unavailable(err error) bool {
	var pg sqlState
	var lite resultCode
	var network net.Error
	var early unsent
	switch {
	case errors.As(err, &early) && early.SafeToRetry():
		return true
	case errors.As(err, &pg) && len(pg.SQLState()) == 5:
		switch pg.SQLState()[:2] {
		case "08", "40", "53", "55", "57", "58", "XX", "25": // connection, rollback, resources, state, operator, system, internal; read-only server
			return true
		}
		return pg.SQLState() == uniqueViolation // another program has just changed a row to the same value
	case errors.As(err, &lite):
		return passing[lite.Code()&0xff]
	}
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

const uniqueViolation, insufficientPrivilege, readOnly, queryCanceled = "23505", "42501", "25006", "57014"

// Refused reports whether the database refused the values of a row.
func Refused(err error) bool {
	var pg sqlState
	var lite resultCode
	switch {
	case errors.As(err, &pg) && len(pg.SQLState()) == 5:
		switch class := pg.SQLState()[:2]; class {
		case "21", "22", "23", "27", "38", "39", "44", "P0": // more than one row, invalid data, a constraint, a trigger, a function, a view's condition, an exception
			return true
		case "53", "54", "55", "57", "58", "72", "XX": // These are errors of the server.
			return false
		default: // codes of others, which a trigger raises, have none of the standard's classes: those begin with 0 to 4 and A to H
			return class[0] >= '5' && class[0] <= '9' || class[0] >= 'I' && class[0] <= 'Z'
		}
	case errors.As(err, &lite):
		code := lite.Code() & 0xff
		return code == 18 || code == 19 || code == 20 // TOOBIG, CONSTRAINT, MISMATCH
	}
	return false
}

// Collides reports whether the database refused a row because another has the same values in a unique index. That may
// pass soon.
func Collides(err error) bool {
	var pg sqlState
	var lite resultCode
	switch {
	case errors.As(err, &pg):
		return pg.SQLState() == uniqueViolation
	case errors.As(err, &lite):
		return lite.Code() == 1555 || lite.Code() == 2067 // CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE
	}
	return false
}

// Forbidden reports whether the user lacks a right, or the server is read-only.
func Forbidden(err error) bool {
	var pg sqlState
	return errors.As(err, &pg) && (pg.SQLState() == insufficientPrivilege || pg.SQLState() == readOnly)
}

var errTooLong = errors.New("it took too long")

// ErrUndo is the error with which a trial has InTx or InSavepoint undo it.
var ErrUndo = errors.New("only a trial")

// ErrEnded is a refusal that has ended the whole transaction, as SQLite's raise(rollback) does: whatever is done after it
// is kept.
var ErrEnded = errors.New("the database has ended the transaction")

// TooLong reports whether Peek ended a statement because it took too long.
func TooLong(err error) bool {
	var pg sqlState
	return errors.As(err, &pg) && pg.SQLState() == queryCanceled || errors.Is(err, errTooLong)
}
