package advice

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// These patterns find where a new word begins inside a name: at a capital after a small letter, and at the last of several
// capitals if a small letter follows.
var (
	smallCapital   = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)
	capitalCapital = regexp.MustCompile(`(\p{Lu})(\p{Lu}\p{Ll})`)
)

// words splits a column's name: StatusID and status_id both give status, id.
func words(name string) []string {
	name = capitalCapital.ReplaceAllString(smallCapital.ReplaceAllString(name, "${1}_$2"), "${1}_$2")
	all := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range all { // createdat and lockedby are two words each
		if stem := len(w) - 2; stem > 2 && strings.HasSuffix(w[:stem], "ed") && slices.Contains([]string{"at", "by", "on"}, w[stem:]) {
			return slices.Replace(all, i, i+1, w[:stem], w[stem:])
		}
	}
	return all
}

// timeRoles are the columns of times, by what they mean for a row; nil: the table has no such column.
type timeRoles struct {
	created, notBefore, started, timeout, attemptEnd, finished, failed, cancelled *adopted.Column
}

// otherRoles are the other columns with a meaning; nil: the table has no such column.
type otherRoles struct {
	status, processing, processed, success          *adopted.Column // state of a row
	token, claimID, lockedBy, attempts, maxAttempts *adopted.Column // claims
	kind, group, priority, result, errorText        *adopted.Column
}

// role says by which names and types the column for a field of the proposer is found.
type role struct {
	field    **adopted.Column
	fits     func(c adopted.Column) bool // whether the type is right
	names    string                      // words, one of which the column's name must have; a+b asks for both
	unwanted []string                    // words that the column's name must not have
}

// These words in its name tell that a column says since when, or by whom, a row is worked on; a+b asks for both words.
const (
	startedNames  = "started start began begun claimed picked locked lock taken processing attempted dequeued since reserved fetched"
	lockedByNames = "by+locked by+claimed by+picked by+taken by+processed worker server owner host machine processor node agent holder"
)

// isNamed reports whether a column's name has all words of one of the names.
func isNamed(c adopted.Column, names string) bool {
	has := words(c.Name)
	for name := range strings.FieldsSeq(names) {
		if !slices.ContainsFunc(strings.Split(name, "+"), func(w string) bool { return !slices.Contains(has, w) }) {
			return true
		}
	}
	return false
}

func (p *proposer) roles() {
	nullable := func(f func(adopted.Column) bool) func(adopted.Column) bool {
		return func(c adopted.Column) bool { return c.Null && f(c) }
	}
	// formatted accepts a column whose format is known, so that it can be compared with the time now.
	formatted := func(f func(adopted.Column) bool) func(adopted.Column) bool {
		return func(c adopted.Column) bool { return f(c) && !p.formatless(c) }
	}
	texts := func(c adopted.Column) bool {
		return c.Kind == adopted.Text || c.Kind == adopted.Other && p.dialect.Lenient
	}
	numbers := func(c adopted.Column) bool { return c.Kind == adopted.Integer || c.Kind == adopted.Number }
	tokens := func(c adopted.Column) bool {
		_, err := p.dialect.Token("", c)
		return err == nil && c.Null
	}
	flags := func(c adopted.Column) bool {
		unseen := len(p.data.values[c.Name]) == 0 && strings.EqualFold(strings.ReplaceAll(c.Decl, " ", ""), "tinyint(1)") // MySQL's name for boolean
		return c.Kind == adopted.Boolean || c.Kind == adopted.Integer && (unseen || p.data.hasOnly(c.Name, "0", "1"))
	}
	attemptWords := []string{"attempt", "try", "last", "next", "retry"}
	for _, r := range []role{
		{&p.attemptEnd, nullable(p.isTime), "attempt+end attempt+ended attempt+finished last+end", nil},
		{&p.timeout, nullable(formatted(p.isTime)), "timeout expires expiry expiration expire lease until deadline", nil},
		{&p.started, nullable(formatted(p.isTime)), startedNames, nil},
		{&p.finished, nullable(p.isTime), "finished finish completed completion ended end processed done closed handled finalized sent published", attemptWords},
		{&p.started, func(c adopted.Column) bool {
			return p.started == nil && p.finished != nil && nullable(formatted(p.isTime))(c)
		}, "executed performed", nil},
		{&p.failed, nullable(p.isTime), "failed+at discarded+at died+at errored+at failed+on discarded+on", attemptWords},
		{&p.cancelled, nullable(p.isTime), "cancelled+at canceled+at cancelled+on canceled+on", nil},
		{&p.notBefore, formatted(p.isTime), "available run+at scheduled schedule visible before+not next+attempt next+run next+try next+retry retry+at retry+after process+after start+after delayed+until", nil},
		{&p.created, p.isTime, "created creation requested inserted enqueued queued received added entered submitted posted time+request", nil},
		{&p.claimID, func(c adopted.Column) bool { return c.Kind == adopted.Integer && !c.Null && unquoted(c.Def) == "0" }, "claim+id lock+id lease+id reservation+id", nil},
		{&p.token, tokens, "mark token guid lock+id claim+id lease+id receipt ticket", nil},
		{&p.lockedBy, nullable(texts), lockedByNames, nil},
		{&p.maxAttempts, numbers, "max+attempts maximum+attempts max+tries", nil},
		{&p.attempts, numbers, "attempts executions tries trials retries attempt try+count retry+count attempt+count failures", []string{"max"}},
		{&p.priority, numbers, "priority prio urgency importance", nil},
		{&p.status, func(c adopted.Column) bool {
			return c.Kind == adopted.Text || c.Kind == adopted.Integer || c.Kind == adopted.Other
		}, statusNames, nil},
		{&p.success, nullable(flags), "success succeeded successful ok", nil},
		{&p.processed, flags, "processed done completed complete finished handled sent posted closed", nil},
		{&p.processing, flags, "processing locked running started progress claimed taken busy in+process in+use in+work working executing", nil},
		{&p.group, func(c adopted.Column) bool { return texts(c) || c.Kind == adopted.Integer || c.Kind == adopted.UUID }, "group concurrency lane exclusive", nil},
		{&p.result, func(c adopted.Column) bool { return c.Null && (texts(c) || c.Kind == adopted.Document) }, "result output response", nil},
		{&p.errorText, nullable(texts), "error exception traceback failure reason remark remarks note comment message+last", nil},
		{&p.kind, func(c adopted.Column) bool { return texts(c) && p.namesKinds(c) }, "kind type handler job+class job+code hook", []string{"content", "mime"}},
		{&p.kind, func(c adopted.Column) bool { return p.kind == nil && !c.Null && texts(c) && p.namesKinds(c) }, "worker", nil},
	} {
		p.find(r)
	}
}

// find gives the role to the first column that fits. It tries the role's names one after the other.
func (p *proposer) find(r role) {
	for name := range strings.FieldsSeq(r.names) {
		for i, c := range p.table.Columns {
			if p.taken[c.Name] || c.Generated || !isNamed(c, name) || isNamed(c, strings.Join(r.unwanted, " ")) || !r.fits(c) {
				continue
			}
			p.taken[c.Name] = true
			*r.field = &p.table.Columns[i]
			return
		}
	}
}

// namesKinds reports whether a column's values are short names, and not what a handler gets. A column such as owner_type
// beside owner_id names no kind: it is half of a reference.
func (p *proposer) namesKinds(c adopted.Column) bool {
	if stem, ok := strings.CutSuffix(strings.ToLower(c.Name), "type"); ok && stem != "" &&
		slices.ContainsFunc(p.table.Columns, func(o adopted.Column) bool { return strings.ToLower(o.Name) == stem+"id" }) {
		return false
	}
	return !slices.ContainsFunc(p.data.values[c.Name], func(v string) bool {
		return len(v) > 200 || strings.ContainsAny(v, "\n{[") || strings.HasPrefix(v, "---")
	})
}

// isTime reports whether a column holds times: its type says so, or else its name.
func (p *proposer) isTime(c adopted.Column) bool {
	switch c.Kind {
	case adopted.Instant, adopted.Stamp:
		return true
	case adopted.Integer, adopted.Text, adopted.Other:
		last := ""
		if w := words(c.Name); len(w) > 0 {
			last = w[len(w)-1]
		}
		named := strings.Contains(" at on time date ts until after utc gmt ms timestamp start end started ended finished created updated since ", " "+last+" ")
		return named && (c.Kind == adopted.Integer || p.dialect.Lenient)
	}
	return false
}

// formatless reports whether a column holds text in none of the time formats, such as a
// date without a time of day.
func (p *proposer) formatless(c adopted.Column) bool {
	sample := p.data.sample[c.Name]
	if c.Kind == adopted.Instant || c.Kind == adopted.Integer || sample == "" || !p.dialect.Lenient {
		return false
	}
	_, fits := p.database.timesOf(c, sample)
	return !fits
}

// unquoted is the value of a default that is a constant; empty: it is an expression.
func unquoted(def string) string {
	v, _, _ := strings.Cut(strings.Trim(def, "()"), "::")
	if len(v) > 1 && v[0] == '\'' && v[len(v)-1] == '\'' {
		return strings.ReplaceAll(v[1:len(v)-1], "''", "'")
	}
	if adopted.Constant.MatchString(v) && !strings.ContainsAny(v, "(_") && !strings.EqualFold(v, "null") {
		return v
	}
	return ""
}
