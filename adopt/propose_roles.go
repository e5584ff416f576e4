package adopt

import (
	"slices"
	"strings"
	"unicode"
)

// words takes a column's name apart: StatusID and status_id are both status, id.
func words(name string) []string {
	var all []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			all = append(all, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]) && unicode.IsUpper(runes[i-1])):
			flush()
		}
		b.WriteRune(r)
	}
	flush()
	return all
}

// role is what a column may be, by its name and type. A role's names are words, or
// several of them that all must be there.
type role struct {
	to    **column
	fits  func(c column) bool
	names string   // separated by spaces; a+b means both
	not   []string // unless one of these is there
}

func (p *proposer) roles() {
	nullable := func(f func(column) bool) func(column) bool {
		return func(c column) bool { return c.null && f(c) }
	}
	texts := func(c column) bool { return c.kind == text || c.kind == other && p.d.name() == "sqlite" }
	numbers := func(c column) bool { return c.kind == integer || c.kind == number }
	tokens := func(c column) bool {
		_, err := p.d.token("", c)
		return err == nil && c.null
	}
	flags := func(c column) bool {
		return c.kind == boolean || c.kind == integer && p.data.only(c.name, "0", "1")
	}
	tries := []string{"attempt", "try", "last", "next", "retry"}
	for _, r := range []role{
		{&p.attemptEnd, nullable(p.isTime), "attempt+end attempt+ended attempt+finished last+end", nil},
		{&p.timeout, nullable(p.isTime), "timeout expires expiry expiration expire lease until deadline", nil},
		{&p.started, nullable(p.isTime), "started start began begun claimed picked locked lock taken processing attempted dequeued", nil},
		{&p.finished, nullable(p.isTime), "finished finish completed completion ended end processed done closed handled finalized sent", tries},
		{&p.notBefore, p.isTime, "available run+at due scheduled schedule visible before+not next retry delayed after", nil},
		{&p.created, p.isTime, "created creation requested inserted enqueued queued received added entered submitted posted time+request", nil},
		{&p.token, tokens, "mark token guid lock+id claim+id lease+id receipt ticket", nil},
		{&p.lockedBy, nullable(texts), "by+locked by+claimed by+picked by+taken by+processed worker server owner host machine processor node agent holder", nil},
		{&p.attempts, numbers, "attempts tries retries attempt try+count retry+count attempt+count failures", []string{"max"}},
		{&p.priority, numbers, "priority prio urgency importance", nil},
		{&p.status, func(c column) bool { return c.kind == text || c.kind == integer || c.kind == other }, "status state stage phase", nil},
		{&p.success, nullable(flags), "success succeeded successful ok", nil},
		{&p.processed, flags, "processed done completed complete finished handled sent closed", nil},
		{&p.processing, flags, "processing locked running started progress claimed taken busy", nil},
		{&p.group, func(c column) bool { return texts(c) || c.kind == integer || c.kind == uuid }, "group concurrency lane exclusive", nil},
		{&p.result, func(c column) bool { return c.null && (texts(c) || c.kind == document) }, "result output response", nil},
		{&p.errorText, nullable(texts), "error exception failure reason remark remarks note comment message+last", nil},
		{&p.kind, texts, "kind type handler", []string{"content", "mime"}},
	} {
		p.find(r)
	}
	if p.status != nil {
		p.states = p.statesOf(*p.status)
	}
}

// find gives a role to the first column that it fits, in the order of the names.
func (p *proposer) find(r role) {
	for name := range strings.FieldsSeq(r.names) {
		parts := strings.Split(name, "+")
		for i, c := range p.on.columns {
			has := words(c.name)
			missing := func(w string) bool { return !slices.Contains(has, w) }
			unwanted := func(w string) bool { return slices.Contains(has, w) }
			if p.taken[c.name] || c.generated || slices.ContainsFunc(parts, missing) || slices.ContainsFunc(r.not, unwanted) || !r.fits(c) {
				continue
			}
			p.taken[c.name] = true
			*r.to = &p.on.columns[i]
			return
		}
	}
}

// isTime reports whether a column holds times, by its type, or else by its name.
func (p *proposer) isTime(c column) bool {
	switch c.kind {
	case instant, stamp:
		return true
	case integer, text, other:
		last := ""
		if w := words(c.name); len(w) > 0 {
			last = w[len(w)-1]
		}
		named := strings.Contains(" at on time date ts until after utc ms timestamp start end started ended finished ", " "+last+" ")
		return named && (c.kind == integer || p.d.name() == "sqlite")
	}
	return false
}

// states are the values of a status column, by what they mean.
type states struct {
	fresh, running, done, failed, cancelled, unknown []string
	guessed                                          bool // by their order, not by their names
}

func (s states) open() []string { return slices.Concat(s.fresh, s.running) }

func (s states) all() []string {
	return slices.Concat(s.fresh, s.running, s.done, s.failed, s.cancelled, s.unknown)
}

// What values of a status mean by their names.
const (
	freshNames     = " new pending queued waiting ready open available todo created submitted requested idle unprocessed not_started notstarted enqueued initial n q p w "
	runningNames   = " running processing started in_progress inprogress in_process working locked active claimed taken executing busy r i "
	doneNames      = " done complete completed finished success succeeded successful ok processed sent closed handled d c s f "
	failedNames    = " failed failure error errored dead aborted discarded rejected faulted e x "
	cancelledNames = " cancelled canceled "
)

// statesOf sorts the values that a status column has or may have.
func (p *proposer) statesOf(c column) states {
	values := slices.Clone(p.data.values[c.name])
	fresh := unquoted(c.def)
	for _, v := range append(p.data.allowed[c.name], fresh) {
		if v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	var s states
	running := p.oneAtATime(c)
	if c.kind == integer && running == "" {
		return byNumber(values, fresh)
	}
	for _, v := range values {
		name := " " + strings.Join(words(v), "_") + " "
		switch {
		case v == running, c.kind == integer && v != fresh: // of other numbers nothing is known
			if v == running {
				s.running = append(s.running, v)
			} else {
				s.unknown = append(s.unknown, v)
			}
		case v == fresh, strings.Contains(freshNames, name):
			if v == fresh {
				s.fresh = append([]string{v}, s.fresh...)
			} else {
				s.fresh = append(s.fresh, v)
			}
		case strings.Contains(runningNames, name):
			s.running = append(s.running, v)
		case strings.Contains(doneNames, name):
			s.done = append(s.done, v)
		case strings.Contains(failedNames, name):
			s.failed = append(s.failed, v)
		case strings.Contains(cancelledNames, name):
			s.cancelled = append(s.cancelled, v)
		default:
			s.unknown = append(s.unknown, v)
		}
	}
	return s
}

// oneAtATime is the value of a status by which a unique index lets one row of each
// group run.
func (p *proposer) oneAtATime(c column) string {
	for _, x := range p.on.indexes {
		if x.unique && p.group != nil && slices.Equal(x.columns, []string{p.group.name}) {
			for _, v := range p.data.indexed(x, c) {
				return v
			}
		}
	}
	return ""
}

// byNumber goes by the order of numbers: first new, then running, done, failed.
func byNumber(values []string, fresh string) states {
	s := states{guessed: true}
	slices.SortFunc(values, func(a, b string) int { return int(atoi(a) - atoi(b)) })
	if i := slices.Index(values, fresh); i > 0 {
		s.unknown, values = values[:i], values[i:]
	}
	for i, to := range []*[]string{&s.fresh, &s.running, &s.done, &s.failed} {
		switch {
		case len(values) == 2 && i == 1, i >= len(values): // to do, and done
			continue
		case len(values) == 2 && i == 2:
			*to = values[1:2]
		default:
			*to = values[i : i+1]
		}
	}
	if len(values) > 4 {
		s.unknown = append(s.unknown, values[4:]...)
	}
	return s
}

// unquoted is the value of a default that is one.
func unquoted(def string) string {
	v, _, _ := strings.Cut(strings.Trim(def, "()"), "::")
	if len(v) > 1 && v[0] == '\'' && v[len(v)-1] == '\'' {
		return strings.ReplaceAll(v[1:len(v)-1], "''", "'")
	}
	if constant.MatchString(v) && !strings.ContainsAny(v, "(_") && !strings.EqualFold(v, "null") {
		return v
	}
	return ""
}
