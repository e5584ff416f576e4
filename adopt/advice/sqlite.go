package advice

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// sqlite implements questions for SQLite.
type sqlite struct{}

var (
	searches  = regexp.MustCompile(`^SEARCH t USING (?:COVERING )?INDEX (\S+) \(`)
	scansWith = regexp.MustCompile(`^SCAN t USING (?:COVERING )?INDEX (\S+)`)
	lastTerms = regexp.MustCompile(`^USE TEMP B-TREE FOR LAST (?:TERM|(\d+) TERMS) OF ORDER BY`)
)

// claim reports how SQLite finds the rows of a claim. SQLite does not count the rows that it reads.
func (sqlite) claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error) {
	run := claimRun{rows: -1}
	st := p.Do.Claim
	steps, err := adopted.QueryAll(ctx, q, "explain query plan "+st.Text, st.Args(p.OneClaim())...)
	if err != nil {
		return run, err
	}
	run.access, run.index = accessBy(steps), served(p, steps)
	return run, nil
}

// accessBy describes how a query plan finds rows.
func accessBy(steps [][]string) string {
	access, sorts := "", false
	for _, step := range steps {
		name, found := strings.CutPrefix(step[3], "SEARCH t USING ")
		switch {
		case found && access == "":
			_, name, _ = strings.Cut(name, "INDEX ")
			access = "finds rows by index " + strings.TrimSpace(strings.SplitN(name, "(", 2)[0])
			if name == "" || strings.HasPrefix(strings.TrimSpace(name), "(") {
				access = "finds rows by their ids"
			}
		case strings.HasPrefix(step[3], "SCAN t") && !strings.Contains(step[3], " USING "):
			access = "reads the whole table"
		case strings.HasPrefix(step[3], "SCAN t") && access == "":
			access = "reads rows in the order of an index"
		}
		sorts = sorts || strings.HasPrefix(step[3], "USE TEMP")
	}
	if sorts && access != "" {
		access += ", then sorts what it found"
	}
	return access
}

// served names the index that gives rows in the order of claims; empty: there is none.
func served(p *adopted.Plan, steps [][]string) (name string) {
	within := map[string]bool{}
	if p.Mapping.Group.Column == "" {
		within["0"] = true
	}
	ids := len(p.Ordering) - max(len(p.Mapping.Order), 1)
	for _, step := range steps { // a step has its number, its parent's number, an unused column, and its text
		if step[3] == "MATERIALIZE seen" {
			within[step[0]] = true
		}
		if !within[step[1]] {
			continue
		}
		if m := searches.FindStringSubmatch(step[3]); m != nil {
			name = m[1]
		}
		if m := scansWith.FindStringSubmatch(step[3]); m != nil && slices.ContainsFunc(p.On.Indexes, func(x adopted.Index) bool { return x.Name == m[1] && x.Where != "" }) {
			name = m[1]
		}
		if strings.HasPrefix(step[3], "USE TEMP B-TREE FOR ") && strings.HasSuffix(step[3], "ORDER BY") {
			last := lastTerms.FindStringSubmatch(step[3])
			if last == nil || max(adopted.Atoi(last[1]), 1) > int64(ids) {
				return ""
			}
		}
	}
	return name
}

func (sqlite) locks(context.Context, adopted.Querier, *adopted.Table, int) ([]string, error) {
	return []string{"the write lock of the file: other writers wait; readers do not wait if journal_mode is wal"}, nil
}

var listed = regexp.MustCompile(`(?i)["'\x60\[]?([\pL_][\pL\pN_]*)["'\x60\]]?\s+in\s*\(([^()]*)\)`)

func (sqlite) allowed(ctx context.Context, q adopted.Querier, on *adopted.Table) (map[string][]string, error) {
	rows, err := adopted.QueryAll(ctx, q, "select sql from "+adopted.Quote(on.Schema)+".sqlite_schema where type = 'table' and name = ?", on.Name)
	all := map[string][]string{}
	for _, r := range rows {
		for _, m := range listed.FindAllStringSubmatch(r[0], -1) {
			for v := range strings.SplitSeq(m[2], ",") {
				all[m[1]] = append(all[m[1]], strings.Trim(strings.TrimSpace(v), "'"))
			}
		}
	}
	return all, err
}

const day, clock = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]", "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"

// textTimes lists the formats of times in text, each with the patterns of its values.
var textTimes = []struct {
	format   mapping.TimeFormat
	patterns []string
}{
	{mapping.TimesSeconds, []string{day + " " + clock}},
	{mapping.TimesMillis, []string{day + " " + clock + ".[0-9][0-9][0-9]"}},
	{mapping.TimesMicros, []string{day + " " + clock + ".[0-9][0-9][0-9][0-9][0-9][0-9]", day + " " + clock}}, // Django leaves out a fraction that is 0, which compares alike
	{mapping.TimesISO, []string{day + "T" + clock + ".[0-9][0-9][0-9]Z"}},
}

// defaultTimes lists parts of defaults, each with the format of the times that it makes.
var defaultTimes = []struct {
	part   string
	format mapping.TimeFormat
}{
	{"unixepoch", mapping.TimesUnix},
	{"%s'", mapping.TimesUnix},
	{"t%h", mapping.TimesISO},
	{"%f", mapping.TimesMillis},
	{"current_timestamp", mapping.TimesSeconds},
	{"datetime(", mapping.TimesSeconds},
}

func (sqlite) timesOf(c adopted.Column, sample string) (f mapping.TimeFormat, sure bool) {
	for _, t := range textTimes {
		if fits, _ := path.Match(t.patterns[0], sample); fits { // no error: the patterns are valid
			return t.format, true
		}
	}
	if sample != "" {
		return numberTimes(sample)
	}
	for _, d := range defaultTimes {
		if strings.Contains(strings.ToLower(c.Def), d.part) {
			return d.format, true
		}
	}
	return "", false
}

func (sqlite) odd(c adopted.Column, f mapping.TimeFormat, expr string) string {
	if f == "" && c.Kind != adopted.Integer {
		f = mapping.TimesSeconds
	}
	for _, t := range textTimes {
		if t.format == f {
			return "(typeof(" + expr + ") <> 'text' or " + expr + " not glob '" + strings.Join(t.patterns, "' and "+expr+" not glob '") + "')"
		}
	}
	return "(typeof(" + expr + ") not in ('integer', 'real') or " + oddNumber(f, expr) + ")"
}
