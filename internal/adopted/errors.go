package adopted

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// errBad makes database/sql discard a connection.
var errBad = driver.ErrBadConn

// These interfaces read error codes from the drivers of PostgreSQL and SQLite without importing one. That of MariaDB has no
// methods for its codes, and another error for a lost connection.
type (
	sqlState   interface{ SQLState() string }
	resultCode interface{ Code() int }
	unsent     interface{ SafeToRetry() bool } // pgx: nothing was sent before the connection closed
)

// passing holds SQLite's primary result codes for conditions that may pass: BUSY, LOCKED, NOMEM, READONLY, IOERR,
// FULL, CANTOPEN, PROTOCOL.
var passing = map[int]bool{5: true, 6: true, 7: true, 8: true, 10: true, 13: true, 14: true, 15: true}

// mariaError is an error of a MariaDB server; nil: it is none.
func mariaError(err error) (refused *mysql.MySQLError) {
	errors.As(err, &refused)
	return refused
}

// mariaPassing holds MariaDB's codes for conditions that may pass: waits for locks, no room, no connection, a server that
// shuts down, is read-only or has ended the statement.
var mariaPassing = []uint16{1020, 1205, 1213, 1021, 1037, 1040, 1041, 1047, 1053, 1114, 1152, 1180, 1203, 1290, 1317, 1792, 1836, 1927, 1969, mariaDuplicate}

// mariaRefused holds codes by which a server refuses the values of a row, whatever their class.
var mariaRefused = []uint16{1265, 1366, 1442, 1526, 4025}

const mariaDuplicate, mariaTimeout = 1062, 1969

// Deadlocked reports whether a MariaDB server has rolled a transaction back that may take place if it is begun again: it and
// another one have waited for each other.
func Deadlocked(err error) bool {
	e := mariaError(err)
	return e != nil && (e.Number == 1213 || e.Number == 1020)
}

var mariaDenied = []uint16{1044, 1142, 1143, 1227, 1370, 1290, 1792, 1836}

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
	case mariaError(err) != nil:
		return slices.Contains(mariaPassing, mariaError(err).Number)
	}
	return errors.Is(err, mysql.ErrInvalidConn) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
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
	case mariaError(err) != nil:
		e := mariaError(err)
		switch class := string(e.SQLState[:2]); class {
		case "21", "22", "23", "44", "45": // as above; a signal of a trigger
			return true
		case "HY":
			return slices.Contains(mariaRefused, e.Number)
		default:
			return slices.Contains(mariaRefused, e.Number) || class[0] >= '5' && class[0] <= '9' && class != "70" || class[0] >= 'I' && class[0] <= 'Z'
		}
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
	case mariaError(err) != nil:
		return mariaError(err).Number == mariaDuplicate
	}
	return false
}

// Forbidden reports whether the user lacks a right, or the server is read-only.
func Forbidden(err error) bool {
	var pg sqlState
	if e := mariaError(err); e != nil {
		return slices.Contains(mariaDenied, e.Number)
	}
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
	if e := mariaError(err); e != nil {
		return e.Number == mariaTimeout
	}
	return errors.As(err, &pg) && pg.SQLState() == queryCanceled || errors.Is(err, errTooLong)
}
