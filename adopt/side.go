package adopt

import (
	"database/sql"
	"encoding/json"

	"github.com/dibs-queue/dibs/internal/checks"
)

// item is one member of a batch, as the statements take it. A key stands for itself
// in statements on the table, and as text in those on the side table.
type item struct {
	Key     json.RawMessage `json:"k"`
	Fence   json.RawMessage `json:"f,omitempty"`
	Token   string          `json:"t,omitempty"`
	Group   *string         `json:"g,omitempty"`
	Error   string          `json:"e,omitempty"`
	Result  string          `json:"r,omitempty"`
	Delay   *float64        `json:"d,omitempty"` // seconds; on the side table the time itself, in microseconds
	Base    int64           `json:"b,omitempty"` // from when the delay counts; with a side table only
	Uncount int             `json:"u"`
	Dead    int             `json:"x"`
}

// sideKey is a key as text.
func sideKey(key string) json.RawMessage {
	raw, _ := json.Marshal(key) // a string
	return raw
}

// batch is the JSON that a statement takes for many rows.
func batch(items []item) string {
	raw, err := json.Marshal(items)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(raw)
}

// keysOf names rows by their keys as values, for statements on the table itself.
func keysOf(rows []*row) []item {
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: json.RawMessage(r.key)}
	}
	return items
}

// scanLease reads what the side table tells of a row that was leased.
func scanLease(rows *sql.Rows) (*row, error) {
	r := &row{}
	var errors string
	var until int64
	if err := rows.Scan(&r.key, &r.attempt, &r.excused, &r.claimed, &until, &errors); err != nil {
		return nil, err
	}
	r.errors = checks.ReadHistory([]byte(errors))
	return r, nil
}

// scanHeld reads what it tells of a lease; claimed is the time now.
func scanHeld(rows *sql.Rows) (*row, error) {
	r := &row{}
	var errors string
	if err := rows.Scan(&r.key, &r.attempt, &r.excused, &r.worker, &errors, &r.claimed, &r.own); err != nil {
		return nil, err
	}
	r.errors = checks.ReadHistory([]byte(errors))
	return r, nil
}

// withLeases keeps the rows that were leased, with what the side table tells of them.
func withLeases(rows, leased []*row) []*row {
	byKey := make(map[string]*row, len(leased))
	for _, l := range leased {
		byKey[l.key] = l
	}
	left := rows[:0]
	for _, r := range rows {
		if l := byKey[r.key]; l != nil {
			r.attempt, r.excused, r.claimed, r.errors = l.attempt, l.excused, l.claimed, l.errors
			left = append(left, r)
		}
	}
	return left
}

func scanKey(rows *sql.Rows) (*row, error) {
	r := &row{}
	return r, rows.Scan(&r.key)
}
