package rowstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
)

// Engine is what a database's package does for a Store: it runs transactions and names errors.
type Engine interface {
	// Ready refuses calls on a database that is closed or lost, and calls with a context that is nil or has ended.
	Ready(ctx context.Context) error
	// Write runs f as one call in a transaction, and returns once that is durable. It may run f twice: then
	// the second run must replace all that the first has left in memory. If f fails, it has changed nothing in
	// the database.
	Write(ctx context.Context, f func(*Session) error) error
	// Read runs one statement that only reads, in one snapshot, and calls each for each row.
	Read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error
	// Classify turns an error of the driver into one of dibs, by its code.
	Classify(err error) error
	// Open fails if a caller's transaction has ended: with ErrRolledBack if the database has rolled it back by itself.
	// Verify was called before if verified is true. Otherwise it is called next, after a savepoint, and may find that out itself.
	Open(ctx context.Context, tx dibs.SQLTx, verified bool) error
	// Verify refuses a caller's transaction that cannot write, or is on another database, where no worker would look.
	Verify(ctx context.Context, tx dibs.SQLTx) error
}

// Dialect is a database's statements, and what statements cannot say.
type Dialect struct {
	Statements Statements
	// Insert runs a statement that inserts jobs, and returns the id of the last one, and by how much each is greater than the
	// one before.
	Insert func(ctx context.Context, conn dibs.SQLTx, text string, args ...any) (last, step int64, err error)
	// Wrap makes of a caller's transaction the connection on which a store runs its statements. If it is nil, the
	// statements are kept prepared.
	Wrap func(dibs.SQLTx) dibs.SQLTx
	// Concurrent is nil if write transactions run one after the other.
	Concurrent *Concurrent
	// Now is the database's time, as well as it can be known without a transaction.
	Now func() time.Time
	// NoteTime, if not nil, is told each time that a transaction has read, and when it began to read it.
	NoteTime func(began time.Time, now int64)
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

// These say how many jobs two statements insert that a Dialect makes of enqueue.sql. enqueue_alike inserts
// jobs that differ only in their payloads, enqueue_many any jobs.
const (
	AlikeAtOnce = 50
	ManyAtOnce  = 16
)
