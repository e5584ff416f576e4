package adopt

import (
	"database/sql"
	"math"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// row holds what statements return of a row; see piece.Out in internal/adopted.
type row struct {
	key          string
	fence        string
	attempt      sql.NullInt64
	claimed      int64 // times are in microseconds since 1970
	until, runAt sql.NullInt64
	kind, group  sql.NullString
	worker       sql.NullString
	most         sql.NullInt64 // attempts after which the row is dead
	payload      sql.NullString
	state        string        // result of fetch.sql and list.sql; see piece.State
	since        sql.NullInt64 // start of the claim
	excused      int           // side table: attempts that do not count
	ownQueue     bool          // side table: this queue has the lease
	errors       history       // side table: errors of the attempts
}

// nullText scans a null as the empty string.
type nullText string

func (t *nullText) Scan(v any) error {
	var s sql.NullString
	err := s.Scan(v)
	*t = nullText(s.String)
	return err
}

// history scans the errors of a row from the side table.
type history []dibs.AttemptError

func (h *history) Scan(v any) error {
	var text nullText
	err := text.Scan(v)
	*h = checks.ReadHistory([]byte(text))
	return err
}

// scanner makes a function that scans the columns of a row into these fields.
func scanner(fields func(*row) []any) func(*sql.Rows) (*row, error) {
	return func(rows *sql.Rows) (*row, error) {
		r := &row{}
		return r, rows.Scan(fields(r)...)
	}
}

func marks(r *row) []any { return []any{&r.key, (*nullText)(&r.fence), &r.attempt, &r.claimed} }

func whole(r *row) []any {
	return append(marks(r), &r.until, &r.runAt, &r.kind, &r.group, &r.worker, &r.most, &r.payload)
}

// limit is how many attempts the row may have; 0: as many as it takes.
func (r *row) limit() int {
	if r.most.Int64 >= math.MaxInt32 {
		return 0
	}
	return int(r.most.Int64)
}

var (
	scanKey   = scanner(func(r *row) []any { return []any{&r.key} })
	scanMarks = scanner(marks)
	scanRow   = scanner(whole)
	scanSeen  = scanner(func(r *row) []any { return append(whole(r), &r.state, &r.since) })

	// These scan rows of the side table: a new lease, a lease that is about to end (claimed is the current time), any row.
	scanLease = scanner(func(r *row) []any { return []any{&r.key, &r.attempt, &r.excused, &r.claimed, &r.until, &r.errors} })
	scanHeld  = scanner(func(r *row) []any {
		return []any{&r.key, &r.attempt, &r.excused, &r.worker, &r.errors, &r.claimed, &r.ownQueue}
	})
	scanBeside = scanner(func(r *row) []any {
		return []any{&r.key, &r.attempt, &r.excused, &r.worker, &r.since, &r.until, &r.runAt, &r.errors}
	})
)

// matched keeps the rows whose keys are also among the keys of others, and calls take with each pair.
func matched(rows, others []*row, take func(r, other *row)) []*row {
	byKey := make(map[string]*row, len(others))
	for _, o := range others {
		byKey[o.key] = o
	}
	kept := rows[:0]
	for _, r := range rows {
		if o := byKey[r.key]; o != nil {
			take(r, o)
			kept = append(kept, r)
		}
	}
	return kept
}

// withLeases keeps the rows that were leased, with the side table's values.
func withLeases(rows, leased []*row) []*row {
	return matched(rows, leased, func(r, l *row) {
		r.attempt, r.excused, r.claimed, r.errors = l.attempt, l.excused, l.claimed, l.errors
	})
}
