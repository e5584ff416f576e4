package postgres

import (
	"embed"
	"hash/fnv"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/qualify"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the files of sql/ by name, in the store's schema.
type statements struct {
	text map[string]string
}

// get panics for a name without a file, which is an error in this package.
func (s *statements) get(name string) string {
	text, ok := s.text[name]
	if !ok {
		panic("dibs: no statement " + name)
	}
	return text
}

func load(schema string) (*statements, error) {
	if err := checkSchemaName(schema); err != nil {
		return nil, err
	}
	names, err := fs.Glob(sqlFiles, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	s := &statements{text: make(map[string]string, len(names))}
	for _, name := range names {
		text, err := sqlFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		key := strings.TrimSuffix(strings.TrimPrefix(name, "sql/"), ".sql")
		s.text[key] = qualify.Text(inSchema(withoutHeader(string(text)), schema))
	}
	return s, nil
}

// withoutHeader drops the comment lines at the top, which the server need not parse.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// schemaInText finds the schema in the files, which write dibs.job and so on, unquoted.
var schemaInText = regexp.MustCompile(`\bdibs\.|schema if not exists dibs\b`)

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
