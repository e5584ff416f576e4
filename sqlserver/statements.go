package sqlserver

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
	text["enqueue_alike"], text["enqueue_many"] = text["enqueue"], text["enqueue"] // it takes any number of jobs: see insert
	text["claim_rated"] = s.rated(text["claim"])
	text["fair_rated"] = s.rated(text["fair"])
	for _, claim := range []string{"claim", "claim_rated"} {
		text[claim+"_newest"] = strings.Replace(text[claim], "order by c.run_at, c.id", "order by c.run_at desc, c.id desc", 1)
	}
	return s, nil
}

// rated leaves out of a claim the jobs that hold a place of their group while they wait for its rate.
func (s *statements) rated(claim string) string {
	before, after, _ := strings.Cut(claim, "order by c.")
	return before + s.named(afterHold) + "order by c." + after
}

const afterHold = `  and (j.group_key is null or not exists (
    select 1
    from dibs_rate r
    where r.queue = @queue and r.group_key = j.group_key and r.not_before > @now
  ))
`

// named replaces the default prefix in a file's text by the store's.
func (s *statements) named(text string) string {
	return strings.ReplaceAll(text, defaultPrefix, s.prefix)
}
