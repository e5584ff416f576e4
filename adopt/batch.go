package adopt

import (
	"encoding/json"
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
	Own     int             `json:"o,omitempty"` // 1: the same transaction has claimed it
}

// sideKey is a key as text.
func sideKey(key string) json.RawMessage {
	raw, _ := json.Marshal(key) // a string
	return raw
}

// sideKeysOf names rows by their keys as text.
func sideKeysOf(rows []*row) []item {
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: sideKey(r.key)}
	}
	return items
}

// keysOf names rows by their keys as values, for statements on the table itself.
func keysOf(rows []*row) []item {
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: json.RawMessage(r.key)}
	}
	return items
}

// batch is the JSON that a statement takes for many rows.
func batch(items []item) string {
	raw, err := json.Marshal(items)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(raw)
}
