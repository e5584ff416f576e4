package adopted

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

type mariaDatabase struct{}

// mariaText is a value as text that is compared byte by byte: collations compare text without case and blanks at its end.
const mariaText = "(convert(%s using utf8mb4) collate utf8mb4_nopad_bin)"

// mariaNow is the current time in microseconds, whatever the session's time zone.
const mariaNow = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"

// mariaUTC is a timestamp as a time in UTC.
const mariaUTC = "(timestamp '1970-01-01 00:00:00' + interval cast(unix_timestamp(%s) * 1000000 as signed) microsecond)"

// MariaDB is MariaDB's dialect.
var MariaDB = Dialect{database: mariaDatabase{}, forms: forms{
	Title: "MariaDB", Mark: "?",
	files: templates("mariadb"),
	batch: "json_table(%s, '$[*]' columns (value json path '$')) v", member: "json_value(v.value, '$.%s')", part: "json_query(v.value, '$.%s')",
	now:   mariaNow,
	array: "json_array(%s)", Comma: ", ",
	text: mariaText, hex: "hex(%s)",
	exactTime: mariaText, exactInstant: fmt.Sprintf(mariaText, "cast(unix_timestamp(%s) * 1000000 as signed)"),
	keys: map[kind]string{
		Text: "convert(%s using utf8mb4)", UUID: "convert(%s using utf8mb4)", Other: "convert(%s using utf8mb4)",
		Stamp: "convert(%s using utf8mb4)", Date: "convert(%s using utf8mb4)", Instant: "convert(" + mariaUTC + " using utf8mb4)",
	},
	common: "as",
	// The server takes not every 16 bytes for a UUID, but all of version 4.
	among:  "(%[2]s is null or json_contains(%[2]s, json_quote(convert(%[1]s using utf8mb4))))",
	tokens: map[kind]string{UUID: "cast(insert(insert(%s, 13, 1, '4'), 17, 1, '8') as uuid)", Blob: "unhex(%s)", Text: "%s"},
	Tables: mariaTables, alike: mariaAlike,
	RowLocks: true, backticks: true, unnumbered: true, SessionLocks: true,
}}

// backticked puts the names of a statement, which stand in double quotes, in backticks. It changes neither strings nor comments,
// nor what users have written.
func backticked(statement string) string {
	var b strings.Builder
	for s := statement; s != ""; {
		n := 1
		switch name, rest, quoted := unquote(s); {
		case s[0] == '\x01':
			inner, rest := theirPart(s[1:])
			b.WriteString(inner)
			s = rest
			continue
		case strings.HasPrefix(s, "--"):
			n = strings.IndexByte(s+"\n", '\n')
		case s[0] == '\'' || s[0] == '`':
			n = 2 + strings.IndexByte(s[1:], s[0])
		case quoted && s[0] == '"':
			b.WriteString("`" + strings.ReplaceAll(name, "`", "``") + "`")
			s = rest
			continue
		}
		b.WriteString(s[:n])
		s = s[n:]
	}
	return b.String()
}

// theirPart splits off a part that qualify.Theirs has marked, without its first sign.
func theirPart(s string) (part, rest string) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\x02':
		case i+1 < len(s) && s[i+1] == '\x02':
			i++
		default:
			return strings.ReplaceAll(s[:i], "\x02\x02", "\x02"), s[i+1:]
		}
	}
	return s, ""
}

// suitable refuses servers and sessions on which the promises cannot be kept.
func suitable(ctx context.Context, db *sql.DB) error {
	found, err := QueryAll(ctx, db, "select @@version, @@sql_mode, @@character_set_connection, @@character_set_results")
	if err != nil {
		return err
	}
	version, mode, charset := found[0][0], found[0][1], found[0][2]
	var major, minor int
	_, err = fmt.Sscanf(version, "%d.%d", &major, &minor)
	switch {
	case err != nil || !strings.Contains(version, "MariaDB") || major < 10 || major == 10 && minor < 6:
		return Invalid("database", "is on a server of version %.60s; dibs needs MariaDB 10.6 or later", version)
	case !strings.Contains(mode, "STRICT_"):
		return Invalid("database", "has a session whose sql_mode is not strict: the server would cut off values that do not fit, and say nothing; add the parameter sql_mode='STRICT_TRANS_TABLES' to the data source")
	case strings.Contains(mode, "HIGH_NOT_PRECEDENCE"), strings.Contains(mode, "EMPTY_STRING_IS_NULL"), strings.Contains(mode, "ORACLE"):
		return Invalid("database", "has a session in which SQL means something else, by its sql_mode %s; add the parameter sql_mode='STRICT_TRANS_TABLES' to the data source", mode)
	case charset != "utf8mb4" || found[0][3] != "utf8mb4":
		return Invalid("database", "has a session with the character set %s, which cannot hold every text; add the parameter charset=utf8mb4 to the data source", charset)
	}
	return nil
}

func (mariaDatabase) Clock(c Column, f mapping.TimeFormat) (Clock, error) {
	const micro = " + interval cast((%s) * 1000000 as signed) microsecond)"
	simple := func(function, micros string) Clock {
		digits := 6
		if c.step > 0 {
			for digits = 0; digits < 6 && time.Second/pow10(digits) > c.step; digits++ {
			}
		}
		now := fmt.Sprintf("%s(%d)", function, digits) // the server cuts off what the column does not hold, or rounds it: that depends on sql_mode
		return Clock{
			now: now, down: now, Grain: c.step, float: "double",
			After:  func(secs string) string { return fmt.Sprintf("("+function+"(6)"+micro, secs) },
			micros: func(e string) string { return fmt.Sprintf(micros, e) },
		}
	}
	const unix, utc = "cast(unix_timestamp(%s) * 1000000 as signed)", "timestampdiff(microsecond, '1970-01-01', %s)"
	inUTC := f == mapping.TimesUTC || f == ""
	switch {
	case c.Kind == Instant, c.Kind == Stamp && f == mapping.TimesLocal:
		return simple("now", unix), nil
	case c.Kind == Stamp && inUTC:
		return simple("utc_timestamp", utc), nil
	case c.Kind == Date && (inUTC || f == mapping.TimesLocal):
		today, micros := "utc_date()", utc
		if !inUTC {
			today, micros = "curdate()", unix
		}
		return Clock{
			now: today, down: today, Grain: 24 * time.Hour, float: "double",
			After:  func(secs string) string { return "cast(" + fmt.Sprintf("("+today+micro, secs) + " as date)" },
			micros: func(e string) string { return fmt.Sprintf(micros, e) },
		}, nil
	case c.Kind == Integer && (f == mapping.TimesUnix || f == "" || f == mapping.TimesUnixMS):
		unit, grain := "1000000", time.Second
		if f == mapping.TimesUnixMS {
			unit, grain = "1000", time.Millisecond
		}
		return Clock{
			now: "(" + mariaNow + " div " + unit + ")", down: "(" + mariaNow + " div " + unit + ")", Grain: grain, float: "double",
			After: func(secs string) string {
				return "((" + mariaNow + " + cast((" + secs + ") * 1000000 as signed)) div " + unit + ")"
			},
			micros: func(e string) string { return "cast(" + e + " * " + unit + " as signed)" },
		}, nil
	}
	return Clock{}, timesError(c, f)
}

func pow10(n int) time.Duration {
	p := time.Duration(1)
	for range n {
		p *= 10
	}
	return p
}

// json writes null as a JSON null, but for text that is JSON itself.
func (mariaDatabase) json(expr string, c Column, asJSON bool) string {
	if strings.Contains(c.Decl, "zerofill") || strings.HasPrefix(c.Decl, "bit") {
		expr = "(" + expr + " + 0)"
	}
	text := "convert(" + expr + " using utf8mb4)"
	switch {
	case c.Kind == Document, asJSON: // the reader turns text that is not JSON into a string
		return text
	case c.Kind == Boolean:
		return "case " + expr + " when 0 then 'false' when 1 then 'true' else coalesce(" + text + ", 'null') end"
	case c.Kind == Integer, c.Kind == Number:
		return "coalesce(" + text + ", 'null')"
	case c.Kind == Blob:
		text = "hex(" + expr + ")"
	}
	return "coalesce(json_quote(" + text + "), 'null')"
}

// object concatenates text, since json_object would write text that is JSON as a string.
func (m mariaDatabase) object(columns []Column, exprs []string) string {
	parts := []string{"'{'"}
	for i, c := range columns {
		name, _ := json.Marshal(c.Name) // no error: it is a string
		lit := MariaDB.str(map[bool]string{true: "", false: ","}[i == 0] + string(name) + ":")
		value := m.json(exprs[i], c, false)
		if c.Kind == Document {
			value = "case when json_valid(" + exprs[i] + ") then " + value + " else coalesce(json_quote(" + value + "), 'null') end"
		}
		parts = append(parts, lit, value)
	}
	return "concat(" + strings.Join(append(parts, "'}'"), ", ") + ")"
}

func (m mariaDatabase) item(doc string, i int, c Column) string {
	value := fmt.Sprintf("json_value(%s, '$[%d]')", doc, i)
	switch c.Kind {
	case Integer:
		if strings.Contains(c.Decl, "unsigned") {
			return "cast(" + value + " as unsigned)"
		}
		return "cast(" + value + " as signed)"
	case Instant:
		return "convert_tz(cast(" + value + " as datetime(6)), '+00:00', @@session.time_zone)"
	case Stamp:
		return "cast(" + value + " as datetime(6))"
	case Date:
		return "cast(" + value + " as date)"
	case UUID:
		return "cast(" + value + " as uuid)"
	}
	return asText(value, c)
}

// asText is a value as text in the column's character set, so that it is compared as the column is.
func asText(expr string, c Column) string {
	if c.charset == "" {
		return fmt.Sprintf(mariaText, expr)
	}
	return "(convert(" + expr + " using " + c.charset + ") collate " + c.collation + ")"
}

// cast cuts off text that is too long.
func (mariaDatabase) cast(expr string, c Column) string {
	switch c.Kind {
	case Text, Document:
		if c.Length > 0 {
			expr = fmt.Sprintf("left(%s, %d)", expr, c.Length)
		}
		return asText(expr, c)
	case UUID:
		return "cast(" + expr + " as uuid)"
	}
	return expr
}

// mariaKind derives the kind from the type; checked says that a constraint keeps the values JSON.
func mariaKind(typ, decl string, checked bool) kind {
	switch {
	case checked:
		return Document
	case strings.HasPrefix(decl, "tinyint(1)"), decl == "bit(1)":
		return Boolean
	case typ == "time", typ == "set":
		return Other
	}
	for k, types := range map[kind][]string{
		Integer: {"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"},
		Number:  {"decimal", "float", "double"},
		Text:    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"},
		Blob:    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
		UUID:    {"uuid"},
		Instant: {"timestamp"},
		Stamp:   {"datetime"},
		Date:    {"date"},
	} {
		if slices.Contains(types, typ) {
			return k
		}
	}
	return Other
}
