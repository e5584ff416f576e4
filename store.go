package dibs

import (
	"context"
	"database/sql"
	"time"
)

// Store is what a worker needs of a database: it takes a job from its claim to its end.
// Packages sqlite, postgres and adopt implement it. All methods take batches, are atomic,
// and may be called by many goroutines and processes at once. Bad input is refused as a
// whole with an [InvalidError] before anything is done. A database that cannot be reached
// gives an error that Is [ErrUnavailable].
type Store interface {
	// Claim takes up to r.N due jobs in the queue's order, in one atomic step that
	// never waits for another claimer, and gives them to r.Worker under one new
	// token. It passes over jobs that are locked at that moment. If none is due, or the
	// queue does not exist, the result is empty without an error.
	Claim(ctx context.Context, r ClaimRequest) ([]*RawJob, error)

	// Due lists those of the queues from which a claim of these kinds may find jobs now, and
	// never leaves out one from which it would. Like Claim, it does what is due by the clock.
	// It is for claimers that serve several queues: one call in place of a claim from each.
	Due(ctx context.Context, queues, kinds []string) ([]string, error)

	// Extend makes the named leases end d from now on the database's clock, hundreds in one
	// statement. It reports the leases that it could not extend because they were lost or
	// their jobs are just being finished, and the jobs that are to be cancelled. If it fails,
	// some may have been extended.
	Extend(ctx context.Context, leases []Lease, d time.Duration) (Extended, error)

	// Finish writes outcomes. It refuses an outcome whose token no longer holds the job or
	// whose lease has ended, and leaves one unwritten if another transaction held the job's
	// row for too long. A [FinishError] lists both; the others have taken effect.
	Finish(ctx context.Context, outcomes []Outcome) error

	// Resume gives a restarted worker all jobs of the queue that a worker of the
	// same name still holds, in the queue's order, under one new token and a fresh lease.
	// The old tokens are lost. It counts as an attempt; jobs without attempts left are not
	// returned, and die when their lease ends. N and Kinds of r are ignored. A queue with a
	// Rate, or with a group that has one, gives nothing: its jobs are claimed again, as the rate
	// allows, once their leases have ended.
	Resume(ctx context.Context, r ClaimRequest) ([]*RawJob, error)

	// Sweep does what is due by the clock: jobs whose lease ended become waiting or,
	// without attempts left, dead; grouped jobs whose RunAt has come join their group;
	// schedules whose tick has come enqueue their jobs; finished jobs past retention are deleted, every ten seconds, or once a minute where
	// nothing happens. Claim does this when it is due, and workers that do not claim call
	// Sweep as often as docs/guarantees.md promises. It is safe to call at any time, and returns at once when
	// another process is sweeping.
	Sweep(ctx context.Context) (Swept, error)

	// Register writes entries of the register of workers, up to MaxBatch at once, or removes those whose
	// State is WorkerStopped. Workers call it every 10 s; Workers of package admin lists the entries. On an
	// adopted table it does nothing.
	Register(ctx context.Context, workers ...WorkerInfo) error

	// Wakeups returns a channel that receives when the queue may have new work: at once when
	// this process enqueues, or its Finish makes room in a group or under a limit; within
	// milliseconds when another process does, if the database can notify. A wakeup may come
	// late, merged with others or not at all: claimers must also poll. stop ends it.
	Wakeups(queue string) (wake <-chan struct{}, stop func())
}

// Tx is the part of a store that works inside the caller's own transaction: what
// it does happens if and only if the transaction commits. Get one from
// postgres.Store.Tx, postgres.Store.SQLTx or sqlite.Store.SQLTx, and use it for all calls
// in the transaction. Calls of several goroutines wait for each other.
type Tx interface {
	// Enqueue is Database.Enqueue in the transaction. Nobody is woken: call Wake after the
	// commit, or leave it to the workers' polling.
	Enqueue(ctx context.Context, jobs []NewJob) ([]Enqueued, error)

	// Claim is Store.Claim in the transaction: other claims pass over the jobs while it is
	// open. Rolling back, or losing the connection, gives them back at once as if they had
	// not been claimed, and the attempt is not counted. Finish ends them; a job that is
	// not finished by the commit stays claimed until its lease ends.
	// To count a failure, undo the effects with a savepoint taken after Claim, call
	// Finish with a retry or dead outcome, and commit.
	//
	// A queue with a concurrency limit or a rate serves one such transaction at a time: until
	// it ends, other claims from that queue find nothing.
	//
	// On PostgreSQL the transaction must be READ COMMITTED, the default, or the claim is
	// refused: an older snapshot does not show what runs, nor that the queue has been paused
	// or its limit lowered.
	Claim(ctx context.Context, r ClaimRequest) ([]*RawJob, error)

	// Finish is Store.Finish in the transaction. It accepts jobs that this Tx has claimed even
	// after their leases end: the open transaction holds them. On ErrLeaseLost the caller
	// must roll back: another worker may be running the job, and its effects must not happen
	// twice.
	Finish(ctx context.Context, outcomes []Outcome) error

	// ChangeGroup is Database.ChangeGroup in the transaction: as for a customer who is stored in it, and
	// has jobs in a group. A queue that does not exist yet is made at once, also if the
	// transaction is rolled back. Another call for the same group waits until the transaction ends. f
	// is called once, and must not use the transaction, which waits for it.
	//
	// Until a transaction that sets a Rate ends, jobs of the queue's groups that have no place
	// yet wait: make the call late, and commit soon. On PostgreSQL the transaction must be READ COMMITTED.
	ChangeGroup(ctx context.Context, queue, group string, f func(*Group) error) error

	// Wake tells waiting workers that the queues may have new work into which this Tx has
	// enqueued, or whose groups it has changed. Call it after the commit; InTx does so by itself.
	Wake()
}

// SQLTx is a transaction of database/sql, or of a library on top of it: a *sql.Tx, a *sqlx.Tx
// and GORM's ConnPool are. The SQLTx methods of the stores make a [Tx] of it.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	Queue  string        // default DefaultQueue
	Worker string        // the claiming worker's name; required
	N      int           // how many at most, 1 to MaxBatch
	Kinds  []string      // only these kinds; empty: all
	Lease  time.Duration // 0: the queue's
	// Ahead is how many of the N are claimed ahead: their handlers will start in a moment.
	// 0 to N. No job is claimed ahead where that could hold up others: from a queue with a
	// concurrency limit, a rate or groups, or an adopted table.
	Ahead int
	// Again says that the caller claims again by itself, after wake-ups and now and then, as a
	// Worker does. If such a claim for some kinds has read past many jobs of other kinds and found
	// nothing, the next ones may find nothing without a look, for some times as long as it took.
	Again bool
}

// Lease names one job and the token of the claim that holds it.
type Lease struct {
	ID    int64 `json:"id"`
	Token Token `json:"token"`
	// Progress, if not nil, is written by Extend: how far the attempt has come.
	Progress *Progress `json:"progress,omitempty"`
}

// Extended is the result of Extend.
type Extended struct {
	// Lost are the ids not extended: their lease had ended, the job was taken or finished, or
	// the transaction that has claimed it is still open.
	Lost      []int64 `json:"lost,omitempty"`
	Cancelled []int64 `json:"cancelled,omitempty"` // ids extended, though somebody asked to cancel the job
	// TimedOut are ids extended, though their attempts have run longer than their queue's
	// JobTimeout as it is now. Whoever holds such a job is to stop, and to finish it with a retry: a
	// Worker does so.
	TimedOut []int64 `json:"timed_out,omitempty"`
	// Finishing are the ids that an open transaction is finishing. They were not
	// extended: nobody else can take them while it is open, and once it is rolled back
	// the lease ends when it would have. PostgreSQL only.
	Finishing []int64 `json:"finishing,omitempty"`
}

// Swept counts what Sweep did.
type Swept struct {
	Expired int `json:"expired"` // leases that ended; their jobs are waiting again, dead or cancelled
	Pruned  int `json:"pruned"`  // finished jobs deleted
	// Busy is true when another process was sweeping, and nothing was done here.
	Busy bool `json:"busy,omitempty"`
}

// Database is a store with what a service calls besides, as packages sqlite and postgres make it. What operators do
// with it is in package admin.
type Database interface {
	Store
	// Enqueue inserts all jobs or none, and returns as soon as they are durable,
	// with one Enqueued per job in the same order. Ids grow in that order.
	Enqueue(ctx context.Context, jobs []NewJob) ([]Enqueued, error)
	// InTx runs f in a transaction that the database makes, and commits it if f
	// returns nil.
	InTx(ctx context.Context, f func(Tx) error) error
	// Wake tells waiting workers that the queue may have new work. Enqueue does it by itself,
	// and after the commit of a transaction Tx.Wake does.
	Wake(queue string)

	// Get returns one job in any state, or ErrNotFound.
	Get(ctx context.Context, id int64) (*RawJob, error)
	// Wait returns the job as soon as it has ended, or ErrNotFound if there is no such job. A job
	// that fails and is retried has not ended. If the job has ended and is deleted before Wait
	// has seen it, as by a queue that keeps no completed jobs, the error is ErrNotFound too.
	// While the database is unreachable Wait goes on, until ctx ends.
	//
	// It returns at once for a job that this store finishes. It sees the end of others later by
	// a quarter of the time that it has waited, 5 ms at least and 1 s at most. All calls of a
	// process share one statement at a time. A handler that waits keeps its place in its worker.
	Wait(ctx context.Context, id int64) (*RawJob, error)
	// Cancel ends waiting and blocked jobs at once, and asks the holders of running
	// ones to stop, which Extend reports; such a job is cancelled too if its attempt
	// ends in retry, snooze or release, or its lease ends. It returns the ids of the ended
	// and of the asked; unknown and final jobs are in neither.
	Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error)
	// Queues lists queues by name with their settings: all, or those of the names that there are.
	Queues(ctx context.Context, names ...string) ([]Queue, error)
	// ChangeQueue has f change a queue's settings, and stores and returns the result. If they
	// change meanwhile, f is called again with what they are then. An error of f is returned as it
	// is, and nothing is changed. A queue that does not exist yet is made. QueueChange.Apply is an f.
	ChangeQueue(ctx context.Context, name string, f func(*Queue) error) (Queue, error)
	// ChangeGroup has f change the Limit and Rate of one group, as ChangeQueue does. GroupChange.Apply is an f.
	ChangeGroup(ctx context.Context, queue, group string, f func(*Group) error) error
	// Groups lists the groups of a queue that have settings of their own, by name, and up to 1,000
	// of those that the queue's GroupRate holds up.
	Groups(ctx context.Context, queue string) ([]Group, error)

	Schedules
	StepStore
	BeforeStore

	// Close releases what the store holds; calls after it fail.
	Close() error
}
