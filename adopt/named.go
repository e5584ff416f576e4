package adopt

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// ID returns the number that stands for a row's id in Get and in a Lease. An id that is a whole
// number from 1 on stands for itself. If the id has several columns, name is a JSON array of
// their values, as in Job.Key. The number is the same in every process.
// A store knows which row it stands for only once it has seen that row, or ID has been called.
func (s *Store) ID(name string) (int64, error) {
	keys := s.plan.Keys
	values := []any{name}
	if len(keys) > 1 {
		d := json.NewDecoder(strings.NewReader(name))
		d.UseNumber()
		if err := d.Decode(&values); err != nil || len(values) != len(keys) {
			return 0, adopted.Invalid("id", "must be a JSON array of the %d values of %s, got %.80q", len(keys), strings.Join(s.plan.ID, ", "), name)
		}
	}
	parts := make([]string, len(keys))
	for i, k := range keys {
		part, err := keyPart(k, fmt.Sprint(values[i]))
		if err != nil {
			return 0, err
		}
		parts[i] = part
	}
	return s.held.id("[" + strings.Join(parts, s.plan.Dialect.Comma) + "]"), nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// keyPart writes a value of an id column exactly as the database writes it into a key.
func keyPart(c adopted.Column, value string) (string, error) {
	switch c.Kind {
	case adopted.Integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return "", adopted.Invalid("id", "must be a whole number, as in column %s, got %.80q", c.Name, value)
		}
		return strconv.FormatInt(n, 10), nil
	case adopted.UUID:
		if value = strings.ToLower(value); !uuidForm.MatchString(value) {
			return "", adopted.Invalid("id", "must be a UUID, as in column %s, got %.80q", c.Name, value)
		}
	case adopted.Instant:
		value = inUTC(value)
	}
	return jsonText(value), nil
}

// inUTC writes a time as PostgreSQL writes it into a key: in UTC, without a zone, to the microsecond.
// It does not change values that are no time, such as infinity.
func inUTC(value string) string {
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, strings.Replace(value, " ", "T", 1)); err == nil {
			return at.UTC().Format("2006-01-02T15:04:05.999999")
		}
	}
	return value
}

// jsonText writes a JSON string as PostgreSQL and SQLite do: they escape only what they must.
func jsonText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch i := strings.IndexRune("\b\f\n\r\t\"\\", r); {
		case i >= 0:
			b.WriteString(`\` + `bfnrt"\`[i:i+1])
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
