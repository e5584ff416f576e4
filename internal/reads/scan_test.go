package reads_test

import (
	"database/sql"
	"reflect"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
)

var (
	at    = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	token = dibs.Token{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// columns are the values that drivers give for one value, in different types.
var columns = map[string]struct {
	scanner func() (sql.Scanner, any)
	given   []any // values that must all be read as the same
	want    any
	zero    []any
	bad     []any
}{
	"a time": {
		func() (sql.Scanner, any) { var v time.Time; return reads.Time(&v), &v },
		[]any{at, at.In(time.FixedZone("there", 3600)), at.UnixMicro(), []byte("1767323045000006")},
		at,
		[]any{nil, "infinity", "-infinity"},
		[]any{"yesterday", []byte("x"), 1.5},
	},
	"a duration": {
		func() (sql.Scanner, any) { var v time.Duration; return reads.Duration(&v), &v },
		[]any{int64(1500), []byte("1500"), "1500"},
		1500 * time.Microsecond,
		[]any{nil, int64(0)},
		[]any{"x", []byte("")},
	},
	"a number": {
		func() (sql.Scanner, any) { var v int; return reads.Number(&v), &v },
		[]any{int64(7), []byte("7")},
		7,
		[]any{nil, int64(0)},
		[]any{"x", true},
	},
	"a boolean": {
		func() (sql.Scanner, any) { var v bool; return reads.Bool(&v), &v },
		[]any{true, int64(1), []byte("1")},
		true,
		[]any{nil, false, int64(0), []byte("0")},
		[]any{"x"},
	},
	"a text": {
		func() (sql.Scanner, any) { var v dibs.State; return reads.Text(&v), &v },
		[]any{"dead", []byte("dead")},
		dibs.Dead,
		[]any{nil, "", []byte{}},
		[]any{int64(1)},
	},
	"a token": {
		func() (sql.Scanner, any) { var v dibs.Token; return reads.Token(&v), &v },
		[]any{token[:], "01020304-0506-0708-090a-0b0c0d0e0f10", []byte("01020304-0506-0708-090a-0b0c0d0e0f10")},
		token,
		[]any{nil},
		[]any{"", []byte{1}, "01020304-0506-0708-090a-0b0c0d0e0f1", int64(1)},
	},
	"names": {
		func() (sql.Scanner, any) { var v []string; return reads.Names(&v), &v },
		[]any{`["a", "b"]`, []byte(`["a","b"]`)},
		[]string{"a", "b"},
		[]any{nil, ""},
		[]any{int64(1)},
	},
}

// Drivers give a column in many types. A scanner makes the same of all, and forgets the row before.
func TestScannersTakeWhatAnyDriverGives(t *testing.T) {
	t.Parallel()
	for name, c := range columns {
		s, to := c.scanner()
		value := func() any { return reflect.ValueOf(to).Elem().Interface() }
		for _, v := range c.given {
			for _, empty := range c.zero {
				if err := s.Scan(v); err != nil || !reflect.DeepEqual(value(), c.want) {
					t.Errorf("%s given as %#v is %v, %v", name, v, value(), err)
				}
				if err := s.Scan(empty); err != nil || !reflect.ValueOf(value()).IsZero() {
					t.Errorf("%s given as %#v is %v, %v", name, empty, value(), err)
				}
			}
		}
		for _, v := range c.bad {
			if err := s.Scan(v); err == nil {
				t.Errorf("%s given as %#v is %v", name, v, value())
			}
		}
	}
}
