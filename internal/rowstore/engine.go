package rowstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
)

// Engine is what a database's package does for a Store: it runs transactions and names errors.
type Engine interface {
	// Ready refuses calls on a database that is closed or lost, and with a context that is nil or has ended.
	Ready(ctx context.Context) error
	// Write runs f as one call of a transaction and returns when that is durable. f may run twice: nothing may
	// remain of the first time but what the second replaces. If f fails, it has changed nothing.
	Write(ctx context.Context, f func(*Session) error) error
	// Read runs one statement that only reads, and calls each for its rows, which are of one snapshot.
	Read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error
	// Classify makes an error of the driver's one of dibs', by its code.
	Classify(err error) error
	// Open fails if a caller's transaction has ended: with ErrRolledBack if the database has rolled it back by itself.
	Open(ctx context.Context, tx dibs.SQLTx) error
	// Verify refuses a caller's transaction that cannot write, or is on another database, where no worker would look.
	Verify(ctx context.Context, tx dibs.SQLTx) error
}

// Dialect is a database's statements, and what statements cannot say.
type Dialect struct {
	Statements Statements
	// Insert runs a statement that inserts jobs, and returns the id of the last one. The ids of one statement are in a row.
	Insert func(ctx context.Context, conn dibs.SQLTx, text string, args ...any) (last int64, err error)
	// Concurrent is nil where transactions that write come one after the other.
	Concurrent *Concurrent
	// Now is the database's time as far as it can be had without a transaction.
	Now func() time.Time
}

// Statements are texts of statements by their names.
type Statements map[string]string

// Get panics for a name without a statement, which is an error of this module.
func (s Statements) Get(name string) string {
	text, ok := s[name]
	if !ok {
		panic("dibs: no statement " + name)
	}
	return text
}

// How many jobs two statements insert, which a Dialect makes of enqueue.sql: enqueue_alike jobs that differ in
// their payloads only, enqueue_many any jobs.
const (
	AlikeAtOnce = 50
	ManyAtOnce  = 16
)
