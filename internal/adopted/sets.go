package adopted

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

// Change is what a mapping does to rows on one occasion, for the errors of its checks.
type Change struct {
	Field   string
	Set     mapping.Set
	special []string // the values with a dollar sign that mean something there
}

// Changes are the sets of columns that the mapping names.
func (p *Plan) Changes() []Change {
	all := []Change{
		{"claim.set", p.Claim.Set, []string{"$now", "$worker"}},
		{"completed.set", p.Completed.Set, []string{"$now", "$result"}},
		{"put_back.set", p.PutBack.Set, []string{"$now", "$error", "$run_at"}},
	}
	if p.Dead != nil {
		all = append(all, Change{"dead.set", p.Dead.Set, []string{"$now", "$error"}})
	}
	if p.Cancelled != nil {
		all = append(all, Change{"cancelled.set", p.Cancelled.Set, []string{"$now", "$error"}})
	}
	return all
}

// checkSets checks what is written into rows, and that put_back undoes a claim.
func (p *Plan) checkSets() error {
	for _, ch := range p.Changes() {
		for _, name := range slices.Sorted(maps.Keys(ch.Set)) {
			c, err := p.named(ch.Field, name)
			if err != nil {
				return err
			}
			if slices.Contains(p.ID, name) {
				return Invalid(ch.Field, "must not write %s, by which the row is named", name)
			}
			if c.Generated {
				return Invalid(ch.Field, "%s is made by the database and cannot be written", name)
			}
			if err := p.checkValue(c, ch.Set[name], ch.special); err != nil {
				return Invalid(ch.Field, "%s %v", name, err)
			}
		}
	}
	if err := p.checkRoles(); err != nil {
		return err
	}
	for _, o := range []struct {
		field string
		c     *mapping.Change
	}{{"completed", &p.Completed}, {"dead", p.Dead}, {"cancelled", p.Cancelled}} {
		if o.c == nil {
			continue
		}
		if o.c.Delete == (len(o.c.Set) > 0) {
			return Invalid(o.field, "must either set columns or say delete: true")
		}
	}
	if p.PutBack.Delete {
		return Invalid("put_back", "cannot delete the row")
	}
	for _, c := range p.written() {
		if _, set := p.PutBack.Set[c.Name]; !set && !c.Null {
			return Invalid("put_back", "must set %s, which a claim writes and which cannot be null", c.Name)
		}
	}
	return nil
}

// checkRoles refuses columns that would have to hold two things.
func (p *Plan) checkRoles() error {
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
			return Invalid(field, "is %s, which is %s too", name, other)
		}
		if _, set := c.Set[name]; set && field != "not_before" {
			return Invalid("claim.set", "must not write %s, which is %s", name, field)
		}
		roles[name] = field
	}
	if _, set := p.PutBack.Set[c.Attempts]; set && c.Token == "" && !p.SideTable {
		return Invalid("put_back.set", "must not write %s: it counts up with each claim, which is what tells claims apart", c.Attempts)
	}
	return nil
}

// written are the columns that put_back makes null by itself.
func (p *Plan) written() []Column {
	var all []Column
	for _, name := range []string{p.Claim.Token, p.Claim.LockedBy, p.Claim.StartedAt, p.Claim.Timeout} {
		if c, ok := p.On.Column(name); ok && name != "" {
			all = append(all, c)
		}
	}
	return all
}

func (p *Plan) checkValue(c Column, v any, special []string) error {
	s, isText := v.(string)
	if !isText || !strings.HasPrefix(s, "$") || strings.HasPrefix(s, "$$") {
		if isText && strings.Contains(s, "\x00") {
			return fmt.Errorf("must not contain NUL bytes")
		}
		if v == nil && !c.Null {
			return fmt.Errorf("cannot be null")
		}
		if isText && c.Length > 0 && len([]rune(strings.TrimPrefix(s, "$"))) > c.Length {
			return fmt.Errorf("holds %d characters at most, not %q", c.Length, s)
		}
		_, err := p.Dialect.Literal(v)
		return err
	}
	if !slices.Contains(special, s) {
		return fmt.Errorf("cannot be %q here: %s are known, and a string that begins with $ is written with $$", s, strings.Join(special, ", "))
	}
	if s == "$now" || s == "$run_at" {
		_, err := p.Dialect.Clock(c, p.TimesOf(c))
		return err
	}
	return nil
}

// Values are the expressions for the special values where a statement is.
type Values struct {
	Err, Result string // as text
	Delay       string // seconds until the next attempt; null: at once
}

// valuesOf are those in the batch of change.sql.
func valuesOf(alias string) Values {
	return Values{Err: alias + ".dibs_error", Result: alias + ".dibs_result", Delay: alias + ".dibs_delay"}
}

// Assignment is what is written into a column.
type Assignment struct {
	To   Column
	expr string
}

// Assign are the assignments of set, in the order of the columns' names.
func (p *Plan) Assign(set mapping.Set, v Values) []Assignment {
	var all []Assignment
	for _, name := range slices.Sorted(maps.Keys(set)) {
		c, _ := p.On.Column(name)
		all = append(all, Assignment{c, p.value(c, set[name], v)})
	}
	return all
}

// sets writes assignments as SQL.
func (p *Plan) sets(all []Assignment) string {
	return joined(all, ", ", func(_ int, a Assignment) string { return Quote(a.To.Name) + " = " + a.expr })
}

func (p *Plan) value(c Column, v any, at Values) string {
	s, isText := v.(string)
	switch {
	case !isText || !strings.HasPrefix(s, "$"):
		lit, _ := p.Dialect.Literal(v) // checkSets has seen it
		return lit
	case strings.HasPrefix(s, "$$"):
		lit, _ := p.Dialect.Literal(s[1:])
		return lit
	}
	switch s {
	case "$now":
		k, _ := p.Dialect.Clock(c, p.TimesOf(c))
		return k.now
	case "$run_at":
		k, _ := p.Dialect.Clock(c, p.TimesOf(c))
		return (&Timed{c, k}).from("coalesce(" + at.Delay + ", 0)")
	case "$error":
		return p.Dialect.cast(at.Err, c)
	case "$result":
		return p.Dialect.cast(at.Result, c)
	default: // $worker
		return p.Dialect.cast(param("worker"), c)
	}
}

// claimSets is what a claim writes.
func (p *Plan) claimSets() string { return p.sets(p.Claims()) }

// Claims are what a claim writes.
func (p *Plan) Claims() []Assignment {
	var all []Assignment
	put := func(c Column, expr string) { all = append(all, Assignment{c, expr}) }
	if c, ok := p.On.Column(p.Claim.Token); ok {
		expr, _ := p.Dialect.Token(param("token"), c) // setFence has seen it
		put(c, expr)
	}
	if c, ok := p.On.Column(p.Claim.LockedBy); ok {
		put(c, p.Dialect.cast(param("worker"), c))
	}
	if p.Started != nil {
		put(p.Started.Column, p.Started.now)
	}
	if p.Timeout != nil {
		put(p.Timeout.Column, p.Timeout.from(param("lease")))
	}
	if c, ok := p.On.Column(p.Claim.Attempts); ok {
		put(c, p.attempts()+" + 1")
	}
	return append(all, p.Assign(p.Claim.Set, Values{})...)
}

// from is the time so many seconds from now, rounded up: neither a lease nor a delay may end early.
func (t *Timed) from(secs string) string {
	return t.After(fmt.Sprintf("cast(%s as double precision) + %g", secs, t.Grain.Seconds()))
}

// endSets is what an outcome writes; nothing if it deletes the row.
func (p *Plan) endSets(c mapping.Change, v Values) string { return p.sets(p.Assign(c.Set, v)) }

// BackSets is what makes a row available again. uncounted is how many attempts are taken back.
func (p *Plan) BackSets(v Values, uncounted string) string { return p.sets(p.Backs(v, uncounted)) }

// Backs are what makes a row available again.
func (p *Plan) Backs(v Values, uncounted string) []Assignment {
	all := p.Assign(p.PutBack.Set, v)
	own := func(c Column) bool { _, set := p.PutBack.Set[c.Name]; return !set }
	for _, c := range p.written() {
		if own(c) {
			all = append(all, Assignment{c, "null"})
		}
	}
	if p.Before != nil && own(p.Before.Column) && v.Delay != "null" {
		col := Quote(p.Before.Name)
		all = append(all, Assignment{p.Before.Column, fmt.Sprintf("case when %s is null then t.%s else %s end", v.Delay, col, p.Before.from(v.Delay))})
	}
	// Only a token still tells the next claim apart if the number goes down.
	if c, ok := p.On.Column(p.Claim.Attempts); ok && own(c) && p.Claim.Token != "" && uncounted != "" {
		all = append(all, Assignment{c, c.SQL() + " - " + uncounted})
	}
	return all
}
