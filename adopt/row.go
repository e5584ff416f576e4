package adopt

import (
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// row is what a statement tells of a row; see piece.Out.
type row struct {
	key          string
	fence        string
	attempt      sql.NullInt64
	claimed      int64 // times are in microseconds since 1970
	until, runAt sql.NullInt64
	kind, group  sql.NullString
	worker       sql.NullString
	payload      sql.NullString
	state        string        // what fetch and list say: see adopted.Plan.State
	since        sql.NullInt64 // when its claim began
	excused      int           // this and what follows is the side table's
	own          bool          // it was leased for this queue
	errors       history
}

// nullText scans a null as the empty string.
type nullText string

func (t *nullText) Scan(v any) error {
	var s sql.NullString
	err := s.Scan(v)
	*t = nullText(s.String)
	return err
}

// history scans errors as the side table holds them.
type history []dibs.AttemptError

func (h *history) Scan(v any) error {
	var text nullText
	err := text.Scan(v)
	*h = checks.ReadHistory([]byte(text))
	return err
}

// scanner reads rows whose columns are these fields.
func scanner(fields func(*row) []any) func(*sql.Rows) (*row, error) {
	return func(rows *sql.Rows) (*row, error) {
		r := &row{}
		return r, rows.Scan(fields(r)...)
	}
}

func marks(r *row) []any { return []any{&r.key, (*nullText)(&r.fence), &r.attempt, &r.claimed} }

func whole(r *row) []any {
	return append(marks(r), &r.until, &r.runAt, &r.kind, &r.group, &r.worker, &r.payload)
}

var (
	scanKey   = scanner(func(r *row) []any { return []any{&r.key} })
	scanMarks = scanner(marks)
	scanRow   = scanner(whole)
	scanSeen  = scanner(func(r *row) []any { return append(whole(r), &r.state, &r.since) })

	// What the side table tells: of a row that was just leased, of a lease that is about to end, where claimed is the time now, and of any row.
	scanLease = scanner(func(r *row) []any { return []any{&r.key, &r.attempt, &r.excused, &r.claimed, &r.until, &r.errors} })
	scanHeld  = scanner(func(r *row) []any {
		return []any{&r.key, &r.attempt, &r.excused, &r.worker, &r.errors, &r.claimed, &r.own}
	})
	scanBeside = scanner(func(r *row) []any {
		return []any{&r.key, &r.attempt, &r.excused, &r.worker, &r.since, &r.until, &r.runAt, &r.errors}
	})
)

// matched keeps the rows that are among others, too, and has take copy what these tell of them.
func matched(rows, others []*row, take func(r, other *row)) []*row {
	byKey := make(map[string]*row, len(others))
	for _, o := range others {
		byKey[o.key] = o
	}
	left := rows[:0]
	for _, r := range rows {
		if o := byKey[r.key]; o != nil {
			take(r, o)
			left = append(left, r)
		}
	}
	return left
}

// withLeases keeps the rows that were leased, with what the side table tells of them.
func withLeases(rows, leased []*row) []*row {
	return matched(rows, leased, func(r, l *row) {
		r.attempt, r.excused, r.claimed, r.errors = l.attempt, l.excused, l.claimed, l.errors
	})
}
