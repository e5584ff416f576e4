package sqlite

import (
	"cmp"
	"embed"
	"regexp"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
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
	text := rowstore.Statements{}
	s := &statements{rowstore.Dialect{Statements: text, Insert: insert, Now: time.Now}, prefix}
	for _, name := range sqlfiles.Names(files) {
		text[name] = s.named(sqlfiles.Statement(files, name))
	}
	text["enqueue_alike"] = repeated(text["enqueue"], rowstore.AlikeAtOnce)
	text["enqueue_many"] = repeated(parameterNumber.ReplaceAllString(text["enqueue"], "?"), rowstore.ManyAtOnce)
	text["claim_rated"] = strings.Replace(text["claim"], "order by run_at, id", s.named(afterHold)+"order by run_at, id", 1)
	text["fair_rated"] = strings.Replace(text["fair"], "order by turn", s.named(afterHold)+"order by turn", 1)
	for _, claim := range []string{"claim", "claim_rated"} {
		text[claim+"_newest"] = strings.Replace(text[claim], "order by run_at, id", "order by run_at desc, id desc", 1)
	}
	return s, nil
}

// afterHold is a condition of claims: it leaves out jobs that hold a place of their group while they wait for its rate.
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

// named replaces the default prefix in a file's text by the store's.
func (s *statements) named(text string) string {
	return strings.ReplaceAll(text, defaultPrefix, s.prefix)
}
