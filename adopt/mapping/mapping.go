// Package mapping says what the columns of a table mean that package adopt works on. People write a
// [Mapping] as YAML, which [Read] reads, or in Go. Package adopt/advice proposes one.
package mapping

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Mapping says what the columns of a table mean. The YAML file of the dibs command
// has the same fields by the names given here.
//
// Conditions are SQL of the database, one boolean expression each, over the columns
// of the table (which may be written t.column).
type Mapping struct {
	Table string           `yaml:"table"`           // NAME or SCHEMA.NAME
	Queue string           `yaml:"queue,omitempty"` // how workers and the command call it; default: the table's name without its schema
	ID    Columns          `yaml:"id,flow"`         // the column or columns that name a row; unique and not null
	Order Columns          `yaml:"order,flow"`      // what is claimed first; each may end in " desc". Ties go by ID
	Where string           `yaml:"where,omitempty"` // condition: only these rows are this queue's; default: all
	Rows  `yaml:",inline"` // the conditions that tell which rows are to be done
	Kind  string           `yaml:"kind,omitempty"` // column with the kind of job; default: all are of the kind named Queue
	Group Group            `yaml:"group,omitempty"`
	// Concurrency is how many rows may run at once, over all workers; default: no limit. 1 does all work one after the other.
	Concurrency int `yaml:"concurrency,omitempty"`

	Payload Payload `yaml:"payload,omitempty"`

	Claim       Claim         `yaml:"claim,omitempty"`
	Lease       time.Duration `yaml:"lease,omitempty"`        // how long a claim lasts; default 10 s
	MaxAttempts int           `yaml:"max_attempts,omitempty"` // needs attempts or the side table; default: no limit
	Backoff     dibs.Backoff  `yaml:"backoff,omitempty"`      // delay before a retry; default as dibs.Queue. Needs not_before or the side table

	Completed Change  `yaml:"completed"`           // what finishing sets; afterwards the row must not be unfinished
	Dead      *Change `yaml:"dead,omitempty"`      // the same for what has failed for good
	Cancelled *Change `yaml:"cancelled,omitempty"` // default: as Dead
	PutBack   Change  `yaml:"put_back,omitempty"`  // what makes a claimed row available again; what Claim wrote becomes null by itself

	// SideTable keeps leases, attempts, delays, errors and dead rows in a table of
	// ours, dibs_adopted, which Open makes if it is missing. For tables that have no
	// columns for these.
	SideTable bool `yaml:"side_table,omitempty"`
	// Times is how columns of a type that does not tell hold times; see the constants.
	Times TimeFormat `yaml:"times,omitempty"`
}

// Rows tells apart what is to be done, what somebody is at, and what has ended.
type Rows struct {
	Unfinished string `yaml:"unfinished"`           // condition: the row has not ended. Required
	Available  string `yaml:"available,omitempty"`  // condition: of the unfinished ones, nobody is at it. Default: all; then a side table is needed
	Running    string `yaml:"running,omitempty"`    // condition: somebody is at it; default: unfinished and not available
	NotBefore  string `yaml:"not_before,omitempty"` // column: the row is not claimed before that time; null: at once
}

// Claim names the columns that a claim writes. All are optional.
type Claim struct {
	Token     string `yaml:"token,omitempty"`      // a fresh random mark per claim: uuid, text of 32 characters and more, or bytes
	LockedBy  string `yaml:"locked_by,omitempty"`  // the worker's name
	StartedAt string `yaml:"started_at,omitempty"` // when; without Timeout the lease ends Lease after it, and to extend a lease moves it
	Timeout   string `yaml:"timeout,omitempty"`    // when the lease ends
	Attempts  string `yaml:"attempts,omitempty"`   // counted up by one
	Set       Set    `yaml:"set,omitempty"`        // anything else, such as a status
}

// Change is what happens to a row.
type Change struct {
	Set    Set  `yaml:"set,omitempty"`
	Delete bool `yaml:"delete,omitempty"` // delete the row
}

// Set gives columns values: nil, booleans, numbers, strings, or one of
//
//	$now      the time on the database's clock
//	$run_at   when the next attempt may start (PutBack)
//	$error    why the attempt failed (PutBack, Dead, Cancelled); null if it did not
//	$result   what it left, as JSON (Completed)
//	$worker   the name of the worker (Claim)
//
// A string that begins with a dollar sign is written with two of them.
type Set map[string]any

// Group names jobs that may not run together beyond Limit.
type Group struct {
	Column string `yaml:"column,omitempty"` // null: the row is in no group
	Limit  int    `yaml:"limit,omitempty"`  // default 1
}

// Payload says what handlers get: of one column its value, of several an object of
// them by name. No columns: the whole row.
type Payload struct {
	Columns Columns `yaml:"columns,omitempty,flow"`
	// JSON says that a single column of text holds JSON. Where it does not, the handler gets the text as a
	// JSON string. Columns of type json always do.
	JSON bool `yaml:"json,omitempty"`
}

// TimeFormat is how a column holds times whose type does not tell.
type TimeFormat string

// Formats of times. PostgreSQL's timestamptz needs none.
const (
	TimesUTC     TimeFormat = "utc"     // PostgreSQL's timestamp, in UTC: the default for it
	TimesLocal   TimeFormat = "local"   // the same, in the time zone of the sessions, which must be the same for all; where clocks change, a lease can end an hour early or late
	TimesSeconds TimeFormat = "seconds" // SQLite: 2026-01-31 23:59:59, UTC: the default there
	TimesMillis  TimeFormat = "millis"  // SQLite: 2026-01-31 23:59:59.999, UTC
	TimesISO     TimeFormat = "iso"     // SQLite: 2026-01-31T23:59:59.999Z
	TimesUnix    TimeFormat = "unix"    // whole seconds since 1970: the default for whole numbers
	TimesUnixMS  TimeFormat = "unix_ms" // milliseconds since 1970
)
