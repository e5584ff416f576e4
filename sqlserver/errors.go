package sqlserver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// The errors of the server that need more than a class.
const (
	codeDeadlock = 1205
	codeLockWait = 1222
	codeNoObject = 208
	codeNoColumn = 207
	// A session of sqlcmd, or of the server's agent, has quoted_identifier off. In it no table can be written that has an index on a
	// computed column.
	codeOptions = 1934
)

// hints say what to do about an error's number; their errors are dibs.ErrUnavailable.
var hints = map[int32]string{
	codeDeadlock: "it and other transactions have waited for each other, again and again",
	codeLockWait: "another transaction held a lock for too long; end it",
	233:          "the server has ended the connection",
	701:          "the server is out of memory",
	802:          "the server is out of memory",
	945:          "the database is not open; look into the server's log",
	976:          "the database is a secondary replica that takes no connections; name the listener",
	978:          "the database is a secondary replica that takes connections for reading only",
	983:          "the database is between two roles of an availability group",
	1105:         "a filegroup is full; make room",
	3960:         "another transaction has changed the rows; use READ COMMITTED",
	3961:         "another transaction has changed the tables; use READ COMMITTED",
	4060:         "there is no such database, it is not open, or the login may not use it",
	8645:         "the server is out of memory for queries",
	8651:         "the server is out of memory for queries",
	9001:         "the log of the database is not available; look into the server's log",
	9002:         "the log of the database is full; back it up, or make room",
	10053:        "the connection was lost",
	10054:        "the connection was lost",
	10060:        "the server cannot be reached",
	10928:        "the database has no sessions or workers left; lower MaxConns, or choose a larger service tier",
	10929:        "the database has no workers left just now",
	17142:        "the server is paused",
	40197:        "the database has moved to another node; try again",
	40501:        "the service is busy; try again in ten seconds",
	40540:        "the database has moved to another node; try again",
	40613:        "the database is not available just now; try again",
	49918:        "the service has no resources left just now",
	49919:        "the service has no resources left just now",
	49920:        "the service is busy",
	42108:        "the pool of databases is paused; resume it",
	42109:        "the pool of databases is starting",
}

var (
	denied   = []int32{229, 230, 262, 297, 300, 916, 15247, 18452, 18456, 18470}
	readOnly = []int32{3906, 3908}
	schema   = []int32{codeNoColumn, codeNoObject, 213, 2812}
)

func code(err error) int32 {
	var db mssql.Error
	if errors.As(err, &db) {
		return db.Number
	}
	return 0
}

// endedByServer reports whether the driver has refused a call since the server had ended the transaction before.
func endedByServer(err error) bool {
	var db mssql.Error
	return errors.As(err, &db) && db.Number == 0
}

// repeatable reports whether a transaction that failed can be begun again: the server has rolled it back.
func repeatable(err error) bool {
	return slices.Contains([]int32{codeDeadlock, codeLockWait}, code(err))
}

// classify goes by the number, never by the text.
func classify(err error) error {
	if err == nil || errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrSchema) || errors.Is(err, dibs.ErrDenied) || errors.Is(err, context.Canceled) {
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
	case n == codeOptions:
		return fmt.Errorf("the session has options in which the tables cannot be written; set quoted_identifier, ansi_nulls, ansi_padding, ansi_warnings, arithabort and concat_null_yields_null on: %w", err)
	case n != 0 || endedByServer(err):
		return err
	}
	var failed net.Error
	lost := errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.As(err, new(mssql.StreamError)) || errors.As(err, new(*net.OpError))
	if lost || errors.As(err, &failed) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the server cannot be reached: %w", dibs.ErrUnavailable, err)
	}
	return err
}
