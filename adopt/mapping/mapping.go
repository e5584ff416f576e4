// Package mapping describes what the columns of an adopted table mean, for package adopt. People write a
// [Mapping] as YAML, which [Read] reads, or in Go. Package adopt/advice proposes one for a table.
package mapping

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Mapping says what the columns of a table mean. The YAML file of the dibs command has the
// same fields, with the names in the tags.
//
// A condition is one boolean expression in the database's SQL over the columns of the table. It
// may write a column as t.column.
type Mapping struct {
	Table string           `yaml:"table"`           // NAME or SCHEMA.NAME
	Queue string           `yaml:"queue,omitempty"` // name of the queue for workers and the command; default: the table's name without its schema
	ID    Columns          `yaml:"id,flow"`         // the columns that identify a row; unique and not null
	Order Columns          `yaml:"order,flow"`      // columns by which rows are claimed; each may end in " desc". Among equals the smaller ID comes first
	Where string           `yaml:"where,omitempty"` // condition for the rows of this queue; default: all
	Rows  `yaml:",inline"` // conditions for the states of rows
	Kind  string           `yaml:"kind,omitempty"` // column with the kind of job; default: the name in Queue is the kind of all jobs
	Group Group            `yaml:"group,omitempty"`
	// Concurrency is how many rows may run at once, over all workers; default: no limit. With 1, rows run one after the other.
	Concurrency int `yaml:"concurrency,omitempty"`

	Payload Payload `yaml:"payload,omitempty"`

	Claim       Claim         `yaml:"claim,omitempty"`
	Lease       time.Duration `yaml:"lease,omitempty"`        // how long a claim lasts; default: 10 s
	MaxAttempts int           `yaml:"max_attempts,omitempty"` // default: no limit. Needs Claim.Attempts or the side table
	// MaxAttemptsColumn is the column with the most attempts of each row. Rows with null or 0 there have MaxAttempts.
	MaxAttemptsColumn string `yaml:"max_attempts_column,omitempty"`

	Backoff dibs.Backoff `yaml:"backoff,omitempty"` // delay before a retry; default: that of dibs.Queue. Needs NotBefore or the side table

	Completed Change  `yaml:"completed"`           // change of a completed row, which must no longer be unfinished then
	Dead      *Change `yaml:"dead,omitempty"`      // change of a row that has failed for good
	Cancelled *Change `yaml:"cancelled,omitempty"` // change of a cancelled row; default: as Dead
	PutBack   Change  `yaml:"put_back,omitempty"`  // change that makes a claimed row available again; the columns of Claim become null without it

	// SideTable keeps leases, attempts, delays, errors and dead rows in a table
	// dibs_adopted, for tables without columns for these. Open creates it if it is missing.
	SideTable bool `yaml:"side_table,omitempty"`
	// Times is the format of times in columns whose type leaves it open; see the constants.
	Times TimeFormat `yaml:"times,omitempty"`
}

// Rows says which rows wait, which run, and which have ended.
type Rows struct {
	Unfinished string `yaml:"unfinished"`           // condition for rows that have not ended; required
	Available  string `yaml:"available,omitempty"`  // condition for unfinished rows that no worker has claimed; default: all. The default needs a side table
	Running    string `yaml:"running,omitempty"`    // condition for unfinished rows that a worker has claimed; default: those that are not available
	NotBefore  string `yaml:"not_before,omitempty"` // column with the earliest time at which a row may be claimed; null: at once
}

// Claim names the columns that a claim writes. Each is optional.
type Claim struct {
	Token     string `yaml:"token,omitempty"`      // random token of the claim: uuid, text of 32 characters or more, or bytes
	LockedBy  string `yaml:"locked_by,omitempty"`  // name of the worker
	StartedAt string `yaml:"started_at,omitempty"` // start of the claim; without Timeout the lease ends Lease after it, and extending a lease sets it to the current time
	Timeout   string `yaml:"timeout,omitempty"`    // end of the lease
	Attempts  string `yaml:"attempts,omitempty"`   // number of attempts, to which a claim adds one
	Set       Set    `yaml:"set,omitempty"`        // other columns, such as a status
}

// Change sets columns of a row, or deletes the row.
type Change struct {
	Set    Set  `yaml:"set,omitempty"`
	Delete bool `yaml:"delete,omitempty"` // delete the row
}

// Set gives columns values: nil, booleans, numbers, strings, or one of these:
//
//	$now      current time on the database's clock
//	$run_at   earliest start of the next attempt (PutBack)
//	$error    error of the attempt (PutBack, Dead, Cancelled); null if it did not fail
//	$result   result of the job, as JSON (Completed)
//	$worker   name of the worker (Claim)
//
// Write two dollar signs at the beginning of a string that begins with one.
type Set map[string]any

// Group limits how many rows with the same value in a column run at once.
type Group struct {
	Column string `yaml:"column,omitempty"` // null: the row is in no group
	Limit  int    `yaml:"limit,omitempty"`  // how many rows of one group may run at once; default: 1
}

// Payload says what handlers get: the value of a single column, or an object with the names and
// values of several. Without Columns they get the whole row.
type Payload struct {
	Columns Columns `yaml:"columns,omitempty,flow"`
	// JSON says that a single column of text holds JSON. Handlers get text that is not JSON as a JSON string.
	// For columns of type json it makes no difference.
	JSON bool `yaml:"json,omitempty"`
}

// TimeFormat is the format of times in a column whose type leaves it open.
type TimeFormat string

// These are the formats of times. PostgreSQL's timestamptz needs none.
const (
	TimesUTC     TimeFormat = "utc"     // PostgreSQL's timestamp, in UTC; the default for this type
	TimesLocal   TimeFormat = "local"   // PostgreSQL's timestamp, in the sessions' time zone, the same for all; where clocks change, a lease can end an hour early or late
	TimesSeconds TimeFormat = "seconds" // SQLite: 2026-01-31 23:59:59, in UTC; the default for text
	TimesMillis  TimeFormat = "millis"  // SQLite: 2026-01-31 23:59:59.999, in UTC
	TimesMicros  TimeFormat = "micros"  // SQLite: 2026-01-31 23:59:59.999999, in UTC, as Rails and Django write it; dibs writes 000 as the last digits
	TimesISO     TimeFormat = "iso"     // SQLite: 2026-01-31T23:59:59.999Z
	TimesUnix    TimeFormat = "unix"    // whole seconds since 1970; the default for whole numbers
	TimesUnixMS  TimeFormat = "unix_ms" // milliseconds since 1970
)
