package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// The errors of the server that need more than a class.
const (
	codeLockWait   = 1205
	codeDeadlock   = 1213
	codeChanged    = 1020 // the row has changed since the snapshot: only with innodb_snapshot_isolation
	codeNoTable    = 1146
	codeNoDatabase = 1049
	codeNoneNamed  = 1046
	codeNoColumn   = 1054
	codeDuplicate  = 1062
	codeNotReady   = 1047 // the node takes no part in its cluster now
)

// hints say what to do about an error code; their errors are dibs.ErrUnavailable.
var hints = map[uint16]string{
	codeLockWait: "another transaction held a lock for too long; end it",
	codeDeadlock: "it and other transactions have waited for each other, again and again",
	codeChanged:  "another transaction has changed the rows; use READ COMMITTED",
	1021:         "the disk is full; make room",
	1040:         "the server has no connections left; raise max_connections or lower MaxConns",
	1203:         "the user has no connections left; raise max_user_connections or lower MaxConns",
	1041:         "the server is out of memory",
	1037:         "the server is out of memory",
	codeNotReady: "the node is not ready: it is not part of the cluster just now",
	1053:         "the server shuts down",
	1114:         "a table is full; make room",
	1152:         "the server has ended the connection",
	1180:         "the server could not commit",
	1927:         "somebody has ended the connection",
	1969:         "the server has ended the statement, as it took longer than max_statement_time",
	1317:         "somebody has ended the statement",
	3024:         "the server has ended the statement, as it took too long",
}

var (
	denied   = []uint16{1044, 1045, 1142, 1143, 1227, 1370, 1410, 1698}
	readOnly = []uint16{1290, 1792, 1836, 3032}
	schema   = []uint16{codeNoColumn, 1091, codeNoTable, 1305, 1356}
)

// errUnknown is the error of a commit without an answer.
var errUnknown = fmt.Errorf("%w: the connection was lost at the commit, so it is unknown whether the call took effect", dibs.ErrUnavailable)

func code(err error) uint16 {
	var db *mysql.MySQLError
	if errors.As(err, &db) {
		return db.Number
	}
	return 0
}

// repeatable reports whether a transaction that failed can be begun again: the server has rolled it back, or it has waited
// too long for a lock.
func repeatable(err error) bool {
	return slices.Contains([]uint16{codeLockWait, codeDeadlock, codeChanged}, code(err))
}

func waitedTooLong(err error) bool { return code(err) == codeLockWait }

func unknownTable(err error) bool {
	return slices.Contains([]uint16{codeNoTable, codeNoneNamed}, code(err))
}

// classify goes by the code, never by the text.
func classify(err error) error {
	if err == nil || errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrSchema) || errors.Is(err, context.Canceled) {
		return err
	}
	n := code(err)
	switch hint := hints[n]; {
	case hint != "":
		return fmt.Errorf("%w: %s: %w", dibs.ErrUnavailable, hint, err)
	case slices.Contains(denied, n):
		return fmt.Errorf("%w: %w", dibs.ErrDenied, err)
	case slices.Contains(readOnly, n):
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, &checks.ReadOnlyError{Why: checks.ReadOnlyServer, Err: err})
	case slices.Contains(schema, n):
		return fmt.Errorf("%w: %w", dibs.ErrSchema, err)
	case n == codeNoDatabase:
		return fmt.Errorf("%w: there is no such database; make it, or name another: %w", dibs.ErrSchema, err)
	case n != 0:
		return err
	}
	var failed net.Error
	lost := errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.As(err, new(*net.OpError))
	if lost || errors.As(err, &failed) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the server cannot be reached: %w", dibs.ErrUnavailable, err)
	}
	return err
}
