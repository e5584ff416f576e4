package reads

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// The scanners below read a column that may be null, whatever type a driver gives it. Null is the zero value.

// Time scans a time, which may be microseconds since 1970. Those that no calendar has, such as PostgreSQL's infinity,
// are zero: only SQL by hand leaves one.
func Time(to *time.Time) sql.Scanner { return timeColumn{to} }

type timeColumn struct{ to *time.Time }

func (c timeColumn) Scan(v any) error {
	*c.to = time.Time{}
	if t, ok := v.(time.Time); ok {
		*c.to = checks.Time(t)
		return nil
	}
	if text, ok := v.(string); ok && strings.HasSuffix(text, "infinity") {
		return nil
	}
	us, ok, err := integer(v)
	if ok {
		*c.to = checks.Time(time.UnixMicro(us))
	}
	return err
}

// integer converts an integer, in whatever type the driver gives it; ok is false for null.
func integer(v any) (n int64, ok bool, err error) {
	switch v := v.(type) {
	case nil:
		return 0, false, nil
	case int64:
		return v, true, nil
	case []byte:
		return integer(string(v))
	case string:
		n, err = strconv.ParseInt(v, 10, 64)
		return n, err == nil, err
	}
	return 0, false, fmt.Errorf("an integer is stored as %T", v)
}

// Duration scans a number of microseconds.
func Duration(to *time.Duration) sql.Scanner { return durationColumn{to} }

type durationColumn struct{ to *time.Duration }

func (c durationColumn) Scan(v any) error {
	us, _, err := integer(v)
	*c.to = checks.Micros(us)
	return err
}

// Number scans an integer.
func Number[T ~int | ~int64](to *T) sql.Scanner { return numberColumn[T]{to} }

type numberColumn[T ~int | ~int64] struct{ to *T }

func (c numberColumn[T]) Scan(v any) error {
	n, _, err := integer(v)
	*c.to = T(n)
	return err
}

// Bool scans a boolean, which may be 0 or 1.
func Bool(to *bool) sql.Scanner { return boolColumn{to} }

type boolColumn struct{ to *bool }

func (c boolColumn) Scan(v any) (err error) {
	var n int64
	var ok bool
	if *c.to, ok = v.(bool); !ok {
		n, _, err = integer(v)
		*c.to = n != 0
	}
	return err
}

// Text scans a text.
func Text[T ~string](to *T) sql.Scanner { return textColumn[T]{to} }

type textColumn[T ~string] struct{ to *T }

func (c textColumn[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.to = ""
	case string:
		*c.to = T(v)
	case []byte:
		*c.to = T(v)
	default:
		return fmt.Errorf("a text is stored as %T", v)
	}
	return nil
}

// ScanBytes is Scan for drivers that have a text as bytes and can spare a copy.
func (c textColumn[T]) ScanBytes(v []byte) error {
	*c.to = T(v)
	return nil
}

// Token scans a token, which may be its 16 bytes or a UUID in text.
func Token(to *dibs.Token) sql.Scanner { return tokenColumn{to} }

type tokenColumn struct{ to *dibs.Token }

func (c tokenColumn) Scan(v any) error {
	*c.to = dibs.Token{}
	ok := v == nil
	switch v := v.(type) {
	case string:
		ok = uuid(c.to, v)
	case []byte:
		if ok = len(v) == len(c.to); ok {
			copy(c.to[:], v)
		} else {
			ok = uuid(c.to, string(v))
		}
	}
	if !ok {
		return fmt.Errorf("a token is stored as %T", v)
	}
	return nil
}

// uuid reads a token in hexadecimal digits, with hyphens or without.
func uuid(to *dibs.Token, text string) bool {
	var digits [2 * len(to)]byte
	n := 0
	for i := range len(text) {
		if text[i] == '-' {
			continue
		}
		if n == len(digits) {
			return false
		}
		digits[n] = text[i]
		n++
	}
	_, err := hex.Decode(to[:], digits[:])
	return n == len(digits) && err == nil
}

// Names scans a list of names in JSON. One that holds something else is read as far as possible: only SQL by hand
// leaves it.
func Names(to *[]string) sql.Scanner { return namesColumn{to} }

type namesColumn struct{ to *[]string }

func (c namesColumn) Scan(v any) error {
	var text string
	err := Text(&text).Scan(v)
	if *c.to = nil; text != "" {
		_ = json.Unmarshal([]byte(text), c.to)
	}
	return err
}

// History scans the errors of a job's attempts.
func History(to *[]dibs.AttemptError) sql.Scanner { return historyColumn{to} }

type historyColumn struct{ to *[]dibs.AttemptError }

func (c historyColumn) Scan(v any) error {
	var text string
	err := Text(&text).Scan(v)
	*c.to = checks.ReadHistory([]byte(text))
	return err
}
