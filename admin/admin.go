// Package admin is what operators do with jobs and queues, of whichever database: lists, statistics, changes of many jobs,
// the register of workers. The stores of packages sqlite and postgres implement [Database].
package admin

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
)

// Admin is what operators do with jobs and queues. Reading never locks a row and never
// slows a claim.
type Admin interface {
	// List returns a page of jobs, newest first.
	List(ctx context.Context, f Filter) (Page, error)
	// Requeue has those of the jobs wait again that ended at until or before, all that have ended if it is
	// zero: due now, with all their attempts allowed again and their history kept. It returns the ids it
	// changed. What others have requeued since it was listed, and what has ended anew, stays as it is. If
	// another job holds a job's unique key by now, the job waits again without it.
	Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error)
	// Edit changes the priority or run_at of jobs that are waiting or blocked, and
	// returns the ids it changed.
	Edit(ctx context.Context, ids []int64, e Edit) ([]int64, error)
	// Times computes how long the last completed jobs of a queue waited and ran. It reads only
	// these, so it costs the same however many there are.
	Times(ctx context.Context, queue string) (Times, error)
	// Failures lists dead jobs, last died first, without what makes them large: of each of some queues
	// the last that died, so that no queue hides another. It reads no other jobs.
	Failures(ctx context.Context, f FailureFilter) ([]Failure, error)
	// DeleteEnded deletes those of the jobs that ended at until or before, all that have ended if it is
	// zero, and returns the ids it deleted, without those that are just being requeued or deleted by another call.
	DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error)
	// Prune deletes final jobs that finished longer than olderThan ago; queue and
	// state narrow it when not empty. It returns how many it deleted.
	Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error)

	// DeleteQueue deletes a queue with its settings and those of its groups. While a job of it has not
	// ended, a schedule enqueues into it, a worker of the register serves it, or it keeps ended jobs or
	// the periods of unique keys, the error is ErrQueueInUse and nothing is deleted; with ended, its ended
	// jobs and the periods are deleted first. A job that is enqueued at the same moment, or later, makes
	// the queue anew, with default settings. If there is no such queue, the error is ErrUnknownQueue.
	DeleteQueue(ctx context.Context, name string, ended bool) error
	// Backlogs counts the blocked jobs of the groups of a queue that have any: of the first
	// MaxBacklogs groups, by name, that come after the one given; empty: from the first on.
	Backlogs(ctx context.Context, queue, after string) ([]Backlog, error)
	// Stats counts every queue, by name. Its cost grows with the queues that hold jobs, not with the jobs.
	Stats(ctx context.Context) ([]QueueStats, error)
	// History counts what happened in each minute, from the one that began since ago or before,
	// up to this one, which comes last. since is up to HistoryKept; 0 means an hour. It tells of
	// each of up to 1,000 queues; without any, of all queues together. Each minute has one entry
	// per queue, in their order, also if nothing happened. Figures are exact, and their cost
	// does not grow with the jobs.
	History(ctx context.Context, queues []string, since time.Duration) ([]Minute, error)

	// Workers lists the register of workers by name: those that work, and those that were lost
	// and have not been removed yet (WorkerKeptFor).
	Workers(ctx context.Context) ([]dibs.WorkerInfo, error)
	// NoteChange notes what somebody has changed, for others to see. About MaxChanges are kept, the newest. Texts
	// longer than 1 KiB are cut.
	NoteChange(ctx context.Context, c Change) error
	// Changes lists up to n of the noted changes, 1 to MaxChanges, newest first.
	Changes(ctx context.Context, n int) ([]Change, error)
	// DueKinds lists, sorted, the kinds of the due jobs among the first 1,000 that
	// wait in a queue, by priority and start time. Jobs that their group blocks are not among them.
	DueKinds(ctx context.Context, queue string) ([]string, error)

	// Followers counts the blocked jobs of a queue that come after others, up to FollowersCap. It reads no other jobs.
	Followers(ctx context.Context, queue string) (int, error)
	// Flow counts the jobs that a job comes after, those that come after it, those of its flow, and those that were
	// cancelled because of it: up to most of each, but of its flow up to most that have not ended and up to most in
	// each final state. 0 counts all of them. It reads the jobs that it counts, without their payloads.
	Flow(ctx context.Context, id int64, most int) (Flow, error)
	// FlowJobs lists the ids of the jobs with this Flow, newest first: up to dibs.MaxBatch of those below before; 0: from the
	// newest on. Without a state these are the jobs that have not ended, with a final state those that ended so.
	// It leaves out jobs that FlowRow.Unneeded counts.
	FlowJobs(ctx context.Context, flow int64, state dibs.State, before int64) ([]int64, error)
}

// Database is a store with all its calls.
type Database interface {
	dibs.Database
	Admin
	// Check looks for anything in the database that breaks an invariant, and describes
	// each finding in one line. It reads everything, so it takes long on large tables.
	Check(ctx context.Context) ([]string, error)
}

// Filter selects jobs to list. Its zero value selects all that are not final.
type Filter struct {
	Queue string
	Kind  string
	Group string
	// State empty selects waiting, blocked and running jobs, by descending id. One of
	// these three selects only those; a final state selects its jobs, last finished first.
	State dibs.State
	Limit int    // 1 to 1000; 0: 100
	After string // Page.Next of the page before

	// The rest select jobs of dibs' own tables; an adopted table refuses them. No index helps to
	// find a worker or a text: where few jobs match, a List looks at all others (see Page).
	Worker  string // the last that claimed the job
	Error   string // a part of its last error, up to 1 KiB; case matters
	Payload string // a part of its payload, as it was enqueued, up to 1 KiB; case matters
	// Scheduled selects jobs whose RunAt has not come. It needs the state waiting.
	Scheduled bool
	// FinishedSince selects jobs that ended at that time or later, FinishedBefore those that ended earlier.
	// Zero is no limit. Both need a final state. An index finds the jobs.
	FinishedSince, FinishedBefore time.Time

	// UniqueKey selects the job that holds this key now, whatever its state: one, or none.
	// It needs a Queue, and allows nothing else.
	UniqueKey string
}

// Page is one page of a list. It may have fewer jobs than the limit, or none, and still a
// Next: a List looks at about 100,000 jobs at most, by a part of the payload at 10,000.
type Page struct {
	Jobs []*dibs.RawJob `json:"jobs"`
	Next string         `json:"next,omitempty"` // give it to Filter.After for the next page; empty: this was the last
}

// Edit is a change to jobs that wait. nil fields stay as they are.
type Edit struct {
	Priority *int
	RunAt    *time.Time // a past time means now
}
