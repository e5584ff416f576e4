package sqlite

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

//go:embed sql/*.sql migrations/*.sql
var files embed.FS

const defaultPrefix = "dibs_"

// statements are the files of sql/ by name, with the store's prefix.
type statements struct {
	rowstore.Dialect
	prefix string
}

var validPrefix = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)

func load(prefix string) (*statements, error) {
	// SQLite ignores the case of names.
	prefix = strings.ToLower(cmp.Or(prefix, defaultPrefix))
	if !validPrefix.MatchString(prefix) || strings.HasPrefix(prefix, "sqlite_") {
		return nil, &dibs.InvalidError{Field: "prefix", Reason: "must be a letter and then up to 31 letters, digits or underscores, and not begin with sqlite_"}
	}
	entries, err := files.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	text := make(rowstore.Statements, len(entries))
	s := &statements{rowstore.Dialect{Statements: text, Insert: insert, Now: time.Now}, prefix}
	for _, e := range entries {
		file, err := files.ReadFile("sql/" + e.Name())
		if err != nil {
			return nil, err
		}
		text[strings.TrimSuffix(e.Name(), ".sql")] = s.named(withoutHeader(string(file)))
	}
	text["enqueue_alike"] = repeated(text["enqueue"], rowstore.AlikeAtOnce)
	text["enqueue_many"] = repeated(parameterNumber.ReplaceAllString(text["enqueue"], "?"), rowstore.ManyAtOnce)
	text["claim_rated"] = strings.Replace(text["claim"], "order by run_at, id", s.named(afterHold)+"order by run_at, id", 1)
	for _, claim := range []string{"claim", "claim_rated"} {
		text[claim+"_newest"] = strings.Replace(text[claim], "order by run_at, id", "order by run_at desc, id desc", 1)
	}
	return s, nil
}

// afterHold keeps claims from jobs that hold a place of their group while they wait for its rate.
const afterHold = `and (group_key is null or not exists (
      select 1
      from dibs_rate r
      where r.queue = ?1 and r.group_key = dibs_job.group_key and r.not_before > ?3
    ))
  `

var parameterNumber = regexp.MustCompile(`\?[0-9]+`)

// repeated turns an insert of one row into one of n rows.
func repeated(insert string, n int) string {
	_, row, _ := strings.Cut(insert, "values ")
	return insert + strings.Repeat(", "+row, n-1)
}

// named replaces the prefix in the files by the store's.
func (s *statements) named(text string) string {
	return strings.ReplaceAll(text, defaultPrefix, s.prefix)
}

// withoutHeader drops the comment lines at the top, so that SQLite need not parse them.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// migration is one numbered file of migrations/; its text ends with the insert into the table migration.
type migration struct {
	version int
	name    string
	text    string
}

func (s *statements) migrations() ([]migration, error) {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	all := make([]migration, 0, len(entries))
	for i, e := range entries {
		text, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d_", i+1)) {
			panic("dibs: migrations are not numbered in order: " + e.Name())
		}
		note := fmt.Sprintf("\ninsert into %smigration (version, compatible_with, applied_at) values (%d, %d, unixepoch() * 1000000);\n",
			s.prefix, i+1, checks.CompatibleWith(string(text), i+1))
		all = append(all, migration{version: i + 1, name: e.Name(), text: s.named(string(text)) + note})
	}
	return all, nil
}

// Migrations returns the SQL that Open runs on a schema of version since, to be applied by
// other means, in one transaction, which it does not begin. since 0 returns all of it.
func Migrations(o Options, since int) (string, error) {
	s, err := load(o.Prefix)
	if err != nil {
		return "", err
	}
	all, err := s.migrations()
	if err != nil {
		return "", err
	}
	if since < 0 || since > len(all) {
		return "", &dibs.InvalidError{Field: "since", Reason: fmt.Sprintf("must be 0 to %d, the newest version that this program knows, got %d", len(all), since)}
	}
	var out strings.Builder
	for _, m := range all[since:] {
		out.WriteString(m.text)
	}
	return out.String(), nil
}
