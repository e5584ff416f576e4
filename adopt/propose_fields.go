package adopt

import (
	"slices"
	"strings"
	"time"
)

// claims names what a claim writes, and chooses the side table where the rows cannot hold a lease.
func (p *proposer) claims() {
	c := &p.m.Claim
	for _, f := range []struct {
		field string
		from  *column
		to    *string
		why   string
	}{
		{"claim.token", p.token, &c.Token, "%s can hold a mark of each claim's own, which fences it"},
		{"claim.locked_by", p.lockedBy, &c.LockedBy, "%s by its name says who is at a row"},
		{"claim.started_at", p.started, &c.StartedAt, "%s by its name says when somebody began"},
		{"claim.timeout", p.timeout, &c.Timeout, "%s by its name says when a claim ends"},
		{"claim.attempts", p.attempts, &c.Attempts, "%s by its name counts attempts"},
		{"not_before", p.notBefore, &p.m.NotBefore, "%s by its name says when a row's time comes"},
	} {
		if f.from != nil {
			*f.to = f.from.name
			p.why(f.field, f.why, f.from.name)
		}
	}
	c.Set, p.m.PutBack.Set = Set{}, Set{}
	if s := p.states; p.status != nil && len(s.fresh) > 0 && len(s.running) > 0 {
		c.Set[p.status.name] = p.value(p.status, s.running[0])
		p.m.PutBack.Set[p.status.name] = p.value(p.status, s.fresh[0])
		if len(s.running) > 1 {
			p.unsure("claim.set", "%s is set to %q; other values of rows that somebody is at are %s", p.status.name, s.running[0], list(s.running[1:]))
		}
		if len(s.fresh) > 1 {
			p.unsure("put_back.set", "%s is set to %q; other values of rows that wait are %s", p.status.name, s.fresh[0], list(s.fresh[1:]))
		}
	}
	if p.processing != nil {
		c.Set[p.processing.name], p.m.PutBack.Set[p.processing.name] = p.bool(p.processing, true), p.bool(p.processing, false)
	}
	if p.attemptEnd != nil {
		p.m.PutBack.Set[p.attemptEnd.name] = "$now"
	}
	p.m.Lease = time.Minute
	if p.started == nil && p.timeout == nil || p.m.Available == "" {
		p.m.SideTable = true
		p.why("side_table", "the table has no time that would end the claim of a worker that was killed; leases, attempts, delays and errors are kept in dibs_adopted beside it. "+
			"It is made when the mapping is first worked with, which needs the right to create a table in that schema")
		p.unsure("lease", "not known: how long the rows of a killed worker stay taken; working ones extend their claims")
		return
	}
	p.unsure("lease", "not known: how long the rows of a killed worker stay taken; working ones extend their claims. Programs that take rows by a rule of their own need the same")
}

// value is a value of a status as its column takes it.
func (p *proposer) value(c *column, v string) any {
	if c.kind == integer {
		return int(atoi(v))
	}
	return v
}

func (p *proposer) bool(c *column, v bool) any {
	if c.kind == boolean {
		return v
	}
	return map[bool]int{true: 1, false: 0}[v]
}

func (p *proposer) order() {
	if p.priority != nil {
		p.m.Order = append(p.m.Order, p.priority.name)
		p.unsure("order", "not known whether small or large numbers of %s come first; for large ones write %q", p.priority.name, p.priority.name+" desc")
	}
	for _, c := range []*column{p.created, p.notBefore} {
		if c != nil {
			p.m.Order = append(p.m.Order, c.name)
			p.why("order", "by %s the oldest come first; ties go by id", c.name)
			break
		}
	}
	for _, name := range p.m.ID { // of a partitioned table
		if c, ok := p.on.column(name); ok && len(p.m.Order) == 0 && len(p.m.ID) > 1 && p.isTime(c) {
			p.m.Order = Columns{name}
			p.why("order", "by %s the oldest come first; ties go by id", name)
		}
	}
	if len(p.m.Order) == 0 && len(p.m.ID) == 1 {
		if c, _ := p.on.column(p.m.ID[0]); c.kind == integer {
			p.m.Order = p.m.ID
			p.why("order", "there is no time of creation; ids that count up have the same order")
		}
	}
}

// rest names group, kind and payload, and tells of queues within the table.
func (p *proposer) rest() {
	if p.group != nil {
		p.m.Group.Column = p.group.name
		for _, x := range p.on.indexes {
			if x.unique && x.where != "" && slices.Equal(x.columns, Columns{p.group.name}) {
				p.why("group", "the unique index %s lets one row of each %s run at a time", x.name, p.group.name)
			}
		}
		p.unsure("group", "only its name says that rows of the same %s must not run together; take it out if they may", p.group.name)
	}
	if p.kind != nil {
		p.m.Kind = p.kind.name
		p.why("kind", "%s by its name says what kind of work a row is", p.kind.name)
	}
	for _, c := range p.on.columns {
		w := words(c.name)
		if values := p.data.values[c.name]; len(values) > 1 && !p.taken[c.name] && (slices.Contains(w, "queue") || slices.Contains(w, "channel") || slices.Contains(w, "topic")) {
			p.taken[c.name] = true
			p.unsure("where", "not known: the table may hold several queues, for %s is one of %s. For one of them: where: %s", c.name, list(values), p.in(&c, values[:1]))
		}
	}
	p.payload()
}

const payloadNames = " payload body data args kwargs arguments parameters params request message document content input command json "

func (p *proposer) payload() {
	var one []column
	for _, c := range p.on.columns {
		if p.taken[c.name] {
			continue
		}
		named := slices.ContainsFunc(words(c.name), func(w string) bool { return strings.Contains(payloadNames, " "+w+" ") })
		if c.kind == document || named && (c.kind == text || c.kind == blob || c.kind == other) {
			one = append(one, c)
		}
	}
	if len(one) != 1 {
		p.why("payload", "no one column is the payload by its name: handlers get the whole row")
		return
	}
	c := one[0]
	p.m.Payload.Columns = Columns{c.name}
	p.m.Payload.JSON = c.kind != document && p.data.json[c.name]
	p.why("payload", "%s is the payload by its name or type", c.name)
	if p.m.Payload.JSON {
		p.why("payload.json", "the rows that were looked at hold JSON there")
	}
}

// times says how columns hold times whose type does not tell.
func (p *proposer) times() {
	var unknown []string
	for _, c := range []*column{p.started, p.timeout, p.notBefore, p.finished, p.created} {
		if c == nil || c.kind == instant {
			continue
		}
		f, sure := p.of.timesOf(*c, p.data.sample[c.name])
		if sure {
			p.m.Times = f
			p.why("times", "%s holds, or has as its default, times of this format", c.name)
			return
		}
		if p.formatless(*c) {
			p.unsure("times", "%s holds %.40q, which fits none of the formats (%s)", c.name, p.data.sample[c.name], formats())
			continue
		}
		if unknown = append(unknown, c.name); p.m.Times == "" {
			p.m.Times = f
		}
	}
	for _, c := range []*column{p.started, p.timeout, p.notBefore} {
		if c == nil || c.kind == instant {
			continue
		}
		if _, err := p.d.clock(*c, p.m.Times); err != nil { // the default of each type, then
			p.m.Times = ""
		}
	}
	if len(unknown) > 0 {
		p.unsure("times", "not known: nothing tells how %s hold times; see that it is as other programs write them", strings.Join(unknown, ", "))
	}
}
