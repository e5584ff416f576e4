package mysql

import (
	"cmp"
	"embed"
	"regexp"
	"strings"

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
	prefix = strings.ToLower(cmp.Or(prefix, defaultPrefix))
	if !validPrefix.MatchString(prefix) {
		return nil, &dibs.InvalidError{Field: "prefix", Reason: "must be a letter and then up to 31 letters, digits or underscores"}
	}
	text := rowstore.Statements{}
	s := &statements{rowstore.Dialect{Statements: text}, prefix}
	for _, name := range sqlfiles.Names(files) {
		text[name] = s.named(strings.TrimSuffix(sqlfiles.Statement(files, name), "\n"))
	}
	text["enqueue_alike"] = repeated(text["enqueue"], rowstore.AlikeAtOnce)
	text["enqueue_many"] = repeated(parameterNumber.ReplaceAllString(text["enqueue"], "?"), rowstore.ManyAtOnce)
	text["wait_keys"] = strings.Replace(text["lock_keys"], " skip locked", "", 1)
	text["claim_rated"] = strings.Replace(text["claim"], "having", s.named(afterHold)+"having", 1)
	text["fair_rated"] = strings.Replace(text["fair"], "having", s.named(afterHold)+"having", 1)
	for _, claim := range []string{"claim", "claim_rated"} {
		text[claim+"_newest"] = strings.Replace(text[claim], "order by j.run_at, j.id", "order by j.run_at desc, j.id desc", 1)
	}
	return s, nil
}

// afterHold is a condition of claims: it leaves out jobs that hold a place of their group while they wait for its rate.
const afterHold = `and (j.group_key is null or not exists (
      select 1
      from dibs_rate r
      where r.queue = ?1 and r.group_key = j.group_key and r.not_before > ?3
    ))
    `

var parameterNumber = regexp.MustCompile(`\?[0-9]+`)

// repeated turns an insert of one row into one of n rows. The payloads are given in the order of the rows, after the
// values that the rows share.
func repeated(insert string, n int) string {
	_, row, _ := strings.Cut(insert, "values ")
	return insert + strings.Repeat(", "+row, n-1)
}

// named replaces the default prefix in a file's text by the store's.
func (s *statements) named(text string) string {
	return strings.ReplaceAll(text, defaultPrefix, s.prefix)
}
