package adopt

import (
	"encoding/json"
)

// item is one element of a statement's batch. Key is a JSON array for statements on the adopted
// table, and this array as a JSON string for statements on the side table.
type item struct {
	Key     json.RawMessage `json:"k"`
	Fence   json.RawMessage `json:"f,omitempty"`
	Token   string          `json:"t,omitempty"`
	Group   *string         `json:"g,omitempty"`
	Error   string          `json:"e,omitempty"`
	Result  string          `json:"r,omitempty"`
	Delay   *float64        `json:"d,omitempty"` // seconds; for the side table the time of the next start, in microseconds
	Base    int64           `json:"b,omitempty"` // time in microseconds from which the delay counts; only with a side table
	Uncount int             `json:"u"`
	Dead    int             `json:"x"`
	Own     int             `json:"o,omitempty"` // 1: the same transaction has claimed the row
}

// sideKey writes a key as a JSON string, for the side table.
func sideKey(key string) json.RawMessage {
	raw, _ := json.Marshal(key) // no error: it is a string
	return raw
}

// sideKeysOf makes a batch of rows for statements on the side table.
func sideKeysOf(rows []*row) []item {
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: sideKey(r.key)}
	}
	return items
}

// keysOf makes a batch of rows for statements on the adopted table.
func keysOf(rows []*row) []item {
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: json.RawMessage(r.key)}
	}
	return items
}

// batch writes the items as the JSON that a statement takes.
func batch(items []item) string {
	raw, err := json.Marshal(items)
	if err != nil {
		panic(err) // unreachable: items hold only texts and numbers
	}
	return string(raw)
}
