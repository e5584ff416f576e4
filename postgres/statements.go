package postgres

import (
	"embed"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

//go:embed sql/*.sql migrations/*.sql
var files embed.FS

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

// step runs a statement of sql/.
func (s *Store) step(name string, args ...any) step { return step{sql: s.sql.get(name), args: args} }

func (s *statements) get(name string) string {
	return s.made(name, func(text string) string {
		return sqlfiles.Parts(text, func(mark string) bool { return !forRates(mark) && !forFair(mark) && !forPlain(mark) })
	})
}

// rated is the text of a file with its marked parts, also those for rates of groups.
func (s *statements) rated(name string) string {
	return s.made(name+forRated, func(text string) string {
		return sqlfiles.Parts(text, func(mark string) bool { return !forFair(mark) })
	})
}

// fair is the text of a file for queues whose groups take turns.
func (s *statements) fair(name string) string {
	return s.made(name+fairly, func(text string) string {
		return sqlfiles.Parts(text, func(mark string) bool { return !forRates(mark) && !forOthers(mark) })
	})
}

// fairRated is the text of a file for queues whose groups take turns and may have rates.
func (s *statements) fairRated(name string) string {
	return s.made(name+fairly+forRated, func(text string) string {
		return sqlfiles.Parts(text, func(mark string) bool { return !forOthers(mark) })
	})
}

// plain is the text of a file without its marked parts, for when none is needed: groups,
// limits and LIFO in claim.sql, wide payloads in enqueue.sql, flows and steps in complete.sql. The server then takes a
// third less time to begin a claim.
func (s *statements) plain(name string) string {
	return s.made(name+plainly, func(text string) string {
		return sqlfiles.Parts(text, func(mark string) bool { return forOthers(mark) || forPlain(mark) })
	})
}

func forRates(mark string) bool  { return strings.HasPrefix(mark, "-- for rates") }
func forFair(mark string) bool   { return strings.HasPrefix(mark, "-- for fair") }
func forPlain(mark string) bool  { return strings.HasPrefix(mark, "-- for plain jobs") }
func forOthers(mark string) bool { return strings.HasPrefix(mark, "-- for other orders") }

// These endings of a statement's name say which marked parts its text has: none, those for rates of groups, those for
// fair queues.
const (
	plainly  = " (plain)"
	forRated = " (rates)"
	fairly   = " (fair)"
)

// made returns the text that treat makes of a file. It is made once.
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
	q := qualify.Text(treat(sqlfiles.Statement(files, fileOf(name))))
	texts.Store(name, q)
	return q
}

// fileOf is the name of a statement's file, without the ending for its marked parts.
func fileOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, plainly), forRated), fairly)
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
