package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// change is what a mapping does to rows on one occasion, for the errors of its checks.
type change struct {
	field   string
	set     Set
	special []string // the values with a dollar sign that mean something there
}

func (p *plan) changes() []change {
	all := []change{
		{"claim.set", p.Claim.Set, []string{"$now", "$worker"}},
		{"completed.set", p.Completed.Set, []string{"$now", "$result"}},
		{"put_back.set", p.PutBack.Set, []string{"$now", "$error", "$run_at"}},
	}
	if p.Dead != nil {
		all = append(all, change{"dead.set", p.Dead.Set, []string{"$now", "$error"}})
	}
	if p.Cancelled != nil {
		all = append(all, change{"cancelled.set", p.Cancelled.Set, []string{"$now", "$error"}})
	}
	return all
}

// checkSets checks what is written into rows, and that put_back undoes a claim.
func (p *plan) checkSets() error {
	for _, ch := range p.changes() {
		for _, name := range slices.Sorted(maps.Keys(ch.set)) {
			c, err := p.named(ch.field, name)
			if err != nil {
				return err
			}
			if slices.Contains(p.ID, name) {
				return invalid(ch.field, "must not write %s, by which the row is named", name)
			}
			if c.generated {
				return invalid(ch.field, "%s is made by the database and cannot be written", name)
			}
			if err := p.checkValue(c, ch.set[name], ch.special); err != nil {
				return invalid(ch.field, "%s %v", name, err)
			}
		}
	}
	if err := p.checkRoles(); err != nil {
		return err
	}
	for _, o := range []struct {
		field string
		c     *Change
	}{{"completed", &p.Completed}, {"dead", p.Dead}, {"cancelled", p.Cancelled}} {
		if o.c == nil {
			continue
		}
		if o.c.Delete == (len(o.c.Set) > 0) {
			return invalid(o.field, "must either set columns or say delete: true")
		}
	}
	if p.PutBack.Delete {
		return invalid("put_back", "cannot delete the row")
	}
	for _, c := range p.written() {
		if _, set := p.PutBack.Set[c.name]; !set && !c.null {
			return invalid("put_back", "must set %s, which a claim writes and which cannot be null", c.name)
		}
	}
	return nil
}

// checkRoles refuses columns that would have to hold two things.
func (p *plan) checkRoles() error {
	c, roles := p.Claim, map[string]string{}
	for _, id := range p.ID {
		roles[id] = "id"
	}
	for _, r := range [][2]string{
		{"claim.token", c.Token},
		{"claim.locked_by", c.LockedBy},
		{"claim.started_at", c.StartedAt},
		{"claim.timeout", c.Timeout},
		{"claim.attempts", c.Attempts},
		{"not_before", p.NotBefore},
	} {
		field, name := r[0], r[1]
		if name == "" {
			continue
		}
		if other := roles[name]; other != "" {
			return invalid(field, "is %s, which is %s too", name, other)
		}
		if _, set := c.Set[name]; set && field != "not_before" {
			return invalid("claim.set", "must not write %s, which is %s", name, field)
		}
		roles[name] = field
	}
	if _, set := p.PutBack.Set[c.Attempts]; set && c.Token == "" && !p.SideTable {
		return invalid("put_back.set", "must not write %s: it counts up with each claim, which is what tells claims apart", c.Attempts)
	}
	return nil
}

// written are the columns that put_back makes null by itself.
func (p *plan) written() []column {
	var all []column
	for _, name := range []string{p.Claim.Token, p.Claim.LockedBy, p.Claim.StartedAt, p.Claim.Timeout} {
		if c, ok := p.on.column(name); ok && name != "" {
			all = append(all, c)
		}
	}
	return all
}

func (p *plan) checkValue(c column, v any, special []string) error {
	s, isText := v.(string)
	if !isText || !strings.HasPrefix(s, "$") || strings.HasPrefix(s, "$$") {
		if isText && strings.Contains(s, "\x00") {
			return fmt.Errorf("must not contain NUL bytes")
		}
		if v == nil && !c.null {
			return fmt.Errorf("cannot be null")
		}
		if isText && c.length > 0 && len([]rune(strings.TrimPrefix(s, "$"))) > c.length {
			return fmt.Errorf("holds %d characters at most, not %q", c.length, s)
		}
		_, err := p.d.literal(v)
		return err
	}
	if !slices.Contains(special, s) {
		return fmt.Errorf("cannot be %q here: %s are known, and a string that begins with $ is written with $$", s, strings.Join(special, ", "))
	}
	if s == "$now" || s == "$run_at" {
		_, err := p.d.clock(c, p.timesOf(c))
		return err
	}
	return nil
}

// values are the expressions for the special values where a statement is.
type values struct {
	err, result string // as text
	delay       string // seconds until the next attempt; null: at once
}

// valuesOf are those in the batch of change.sql.
func valuesOf(alias string) values {
	return values{err: alias + ".dibs_error", result: alias + ".dibs_result", delay: alias + ".dibs_delay"}
}

// assignment is what is written into a column.
type assignment struct {
	to   column
	expr string
}

// assign are the assignments of set, in the order of the columns' names.
func (p *plan) assign(set Set, v values) []assignment {
	var all []assignment
	for _, name := range slices.Sorted(maps.Keys(set)) {
		c, _ := p.on.column(name)
		all = append(all, assignment{c, p.value(c, set[name], v)})
	}
	return all
}

// sets writes assignments as SQL.
func (p *plan) sets(all []assignment) string {
	parts := make([]string, len(all))
	for i, a := range all {
		parts[i] = quote(a.to.name) + " = " + a.expr
	}
	return strings.Join(parts, ", ")
}

func (p *plan) value(c column, v any, at values) string {
	s, isText := v.(string)
	switch {
	case !isText || !strings.HasPrefix(s, "$"):
		lit, _ := p.d.literal(v) // checkSets has seen it
		return lit
	case strings.HasPrefix(s, "$$"):
		lit, _ := p.d.literal(s[1:])
		return lit
	}
	switch s {
	case "$now":
		k, _ := p.d.clock(c, p.timesOf(c))
		return k.now
	case "$run_at":
		k, _ := p.d.clock(c, p.timesOf(c))
		return (&timed{c, k}).from("coalesce(" + at.delay + ", 0)")
	case "$error":
		return p.d.cast(at.err, c)
	case "$result":
		return p.d.cast(at.result, c)
	default: // $worker
		return p.d.cast(param("worker"), c)
	}
}

// claimSets is what a claim writes.
func (p *plan) claimSets() string { return p.sets(p.claims()) }

func (p *plan) claims() []assignment {
	var all []assignment
	put := func(c column, expr string) { all = append(all, assignment{c, expr}) }
	if c, ok := p.on.column(p.Claim.Token); ok {
		expr, _ := p.d.token(param("token"), c) // setFence has seen it
		put(c, expr)
	}
	if c, ok := p.on.column(p.Claim.LockedBy); ok {
		put(c, p.d.cast(param("worker"), c))
	}
	if p.started != nil {
		put(p.started.column, p.started.now)
	}
	if p.timeout != nil {
		put(p.timeout.column, p.timeout.from(param("lease")))
	}
	if c, ok := p.on.column(p.Claim.Attempts); ok {
		put(c, p.attempts()+" + 1")
	}
	return append(all, p.assign(p.Claim.Set, values{})...)
}

// from is the time so many seconds from now, rounded up: neither a lease nor a delay may end early.
func (t *timed) from(secs string) string {
	return t.after(fmt.Sprintf("cast(%s as double precision) + %g", secs, t.grain.Seconds()))
}

// endSets is what an outcome writes; nothing if it deletes the row.
func (p *plan) endSets(c Change, v values) string { return p.sets(p.assign(c.Set, v)) }

// backSets is what makes a row available again. uncounted is how many attempts are taken back.
func (p *plan) backSets(v values, uncounted string) string { return p.sets(p.backs(v, uncounted)) }

func (p *plan) backs(v values, uncounted string) []assignment {
	all := p.assign(p.PutBack.Set, v)
	own := func(c column) bool { _, set := p.PutBack.Set[c.name]; return !set }
	for _, c := range p.written() {
		if own(c) {
			all = append(all, assignment{c, "null"})
		}
	}
	if p.before != nil && own(p.before.column) && v.delay != "null" {
		col := quote(p.before.name)
		all = append(all, assignment{p.before.column, fmt.Sprintf("case when %s is null then t.%s else %s end", v.delay, col, p.before.from(v.delay))})
	}
	// Only a token still tells the next claim apart if the number goes down.
	if c, ok := p.on.column(p.Claim.Attempts); ok && own(c) && p.Claim.Token != "" && uncounted != "" {
		all = append(all, assignment{c, c.sql() + " - " + uncounted})
	}
	return all
}
