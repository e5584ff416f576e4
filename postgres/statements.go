package postgres

import (
	"embed"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/qualify"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the files of sql/ in the store's schema, each read when it is first used:
// qualifying all takes 15 ms, which a program that runs for a moment would notice.
type statements struct {
	schema string
	mu     sync.Mutex
	text   map[string]string // statements by the names of their files
}

func load(schema string) (*statements, error) {
	if err := checkSchemaName(schema); err != nil {
		return nil, err
	}
	return &statements{schema: schema, text: map[string]string{}}, nil
}

func (s *statements) get(name string) string {
	return s.made(name, func(text string) string { return parts(text, func(mark string) bool { return !forRates(mark) }) })
}

// rated is a file with the parts for rates of groups too.
func (s *statements) rated(name string) string {
	return s.made(name+forRated, func(text string) string { return parts(text, func(string) bool { return true }) })
}

func forRates(mark string) bool { return strings.HasPrefix(mark, "-- for rates") }

// plain is a file without the parts marked as "for" something that is not at hand: groups,
// limits and LIFO in claim.sql, wide payloads in enqueue.sql. A claim takes the server a third
// less time to begin then.
func (s *statements) plain(name string) string {
	return s.made(name+plainly, func(text string) string { return parts(text, func(string) bool { return false }) })
}

// These end the names of statements without marked parts, and with those for rates.
const (
	plainly  = " (plain)"
	forRated = " (rates)"
)

// parts keeps or drops the marked parts of a statement. One begins with a line such as
// "-- for groups {" and ends with "-- }". The line "-- for groups, as above" stands for the same
// part again.
func parts(text string, keep func(mark string) bool) string {
	if !strings.Contains(text, "-- for ") {
		return text
	}
	var out strings.Builder
	marked := map[string]string{}
	for lines := strings.SplitAfter(text, "\n"); len(lines) > 0; {
		mark := strings.TrimSpace(lines[0])
		begun, begins := strings.CutSuffix(mark, " {")
		repeated, repeats := strings.CutSuffix(mark, ", as above")
		n, part := 1, lines[0]
		switch isMark := strings.HasPrefix(mark, "-- for "); {
		case isMark && begins:
			n += slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "-- }" })
			part = strings.Join(lines[:n], "")
			marked[begun] = part
		case isMark && repeats:
			part = marked[repeated]
		default:
			begins, repeats = false, false
		}
		if !begins && !repeats || keep(mark) {
			out.WriteString(part)
		}
		lines = lines[n:]
	}
	return out.String()
}

// made is a statement, from its file as treat changes it.
func (s *statements) made(name string, treat func(string) string) string {
	s.mu.Lock()
	text, ok := s.text[name]
	s.mu.Unlock()
	if !ok {
		text = strings.ReplaceAll(inDibs(name, treat), "dibs.", ident(s.schema)+".")
		s.mu.Lock()
		s.text[name] = text
		s.mu.Unlock()
	}
	return text
}

// texts are the statements that this process has used, in the schema dibs.
var texts sync.Map

// inDibs panics for a name without a file, which is an error in this package.
func inDibs(name string, treat func(string) string) string {
	if text, ok := texts.Load(name); ok {
		return text.(string)
	}
	text, err := sqlFiles.ReadFile("sql/" + fileOf(name) + ".sql")
	if err != nil {
		panic(err)
	}
	q := qualify.Text(treat(withoutHeader(string(text))))
	texts.Store(name, q)
	return q
}

// fileOf is the file of a statement, whatever parts it has.
func fileOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, plainly), forRated)
}

// withoutHeader drops the comment lines at the top, which the server need not parse.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// schemaInText finds the schema in migrations, which write dibs.job and so on, unquoted.
var schemaInText = regexp.MustCompile(`\bdibs\.|schema if not exists dibs\b|to_regnamespace\('dibs'\)`)

func inSchema(text, schema string) string {
	return schemaInText.ReplaceAllStringFunc(text, func(m string) string {
		return strings.Replace(m, "dibs", ident(schema), 1)
	})
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// lockKey derives the key of an advisory lock from the names of what it guards.
func lockKey(parts ...string) int64 {
	h := fnv.New64a()
	for _, p := range append([]string{"dibs"}, parts...) {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}
