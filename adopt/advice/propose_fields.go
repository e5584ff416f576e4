package advice

import (
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// claims names what a claim writes, and chooses the side table where the rows cannot hold a lease.
func (p *proposer) claims() {
	c := &p.m.Claim
	for _, f := range []struct {
		field string
		from  *adopted.Column
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
			*f.to = f.from.Name
			p.why(f.field, f.why, f.from.Name)
		}
	}
	c.Set, p.m.PutBack.Set = mapping.Set{}, mapping.Set{}
	if s := p.states; p.status != nil && len(s.fresh) > 0 && len(s.running) > 0 {
		c.Set[p.status.Name] = p.value(p.status, s.running[0])
		p.m.PutBack.Set[p.status.Name] = p.value(p.status, s.fresh[0])
		if len(s.running) > 1 {
			p.unsure("claim.set", "%s is set to %q; other values of rows that somebody is at are %s", p.status.Name, s.running[0], list(s.running[1:]))
		}
		if len(s.fresh) > 1 {
			p.unsure("put_back.set", "%s is set to %q; other values of rows that wait are %s", p.status.Name, s.fresh[0], list(s.fresh[1:]))
		}
	}
	if p.processing != nil {
		c.Set[p.processing.Name], p.m.PutBack.Set[p.processing.Name] = p.bool(p.processing, true), p.bool(p.processing, false)
	}
	if p.attemptEnd != nil {
		p.m.PutBack.Set[p.attemptEnd.Name] = "$now"
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
func (p *proposer) value(c *adopted.Column, v string) any {
	if c.Kind == adopted.Integer {
		return int(adopted.Atoi(v))
	}
	return v
}

func (p *proposer) bool(c *adopted.Column, v bool) any {
	if c.Kind == adopted.Boolean {
		return v
	}
	return map[bool]int{true: 1, false: 0}[v]
}

func (p *proposer) order() {
	if p.priority != nil {
		p.m.Order = append(p.m.Order, p.priority.Name)
		p.unsure("order", "not known whether small or large numbers of %s come first; for large ones write %q", p.priority.Name, p.priority.Name+" desc")
	}
	for _, c := range []*adopted.Column{p.created, p.notBefore} {
		if c != nil {
			p.m.Order = append(p.m.Order, c.Name)
			p.why("order", "by %s the oldest come first; ties go by id", c.Name)
			break
		}
	}
	for _, name := range p.m.ID { // a partitioned table may have its time in the key
		if c, ok := p.on.Column(name); ok && len(p.m.Order) == 0 && len(p.m.ID) > 1 && p.isTime(c) {
			p.m.Order = mapping.Columns{name}
			p.why("order", "by %s the oldest come first; ties go by id", name)
		}
	}
	if len(p.m.Order) == 0 && len(p.m.ID) == 1 {
		if c, _ := p.on.Column(p.m.ID[0]); c.Kind == adopted.Integer {
			p.m.Order = p.m.ID
			p.why("order", "there is no time of creation; ids that count up have the same order")
		}
	}
}

// rest names group, kind and payload, and tells of queues within the table.
func (p *proposer) rest() {
	if p.group != nil {
		p.m.Group.Column = p.group.Name
		for _, x := range p.on.Indexes {
			if x.Unique && x.Where != "" && slices.Equal(x.Columns, mapping.Columns{p.group.Name}) {
				p.why("group", "the unique index %s lets one row of each %s run at a time", x.Name, p.group.Name)
			}
		}
		p.unsure("group", "only its name says that rows of the same %s must not run together; take it out if they may", p.group.Name)
	}
	if p.kind != nil {
		p.m.Kind = p.kind.Name
		p.why("kind", "%s by its name says what kind of work a row is", p.kind.Name)
	}
	for _, c := range p.on.Columns {
		w := words(c.Name)
		if values := p.data.values[c.Name]; len(values) > 1 && !p.taken[c.Name] && (slices.Contains(w, "queue") || slices.Contains(w, "channel") || slices.Contains(w, "topic")) {
			p.taken[c.Name] = true
			p.unsure("where", "not known: the table may hold several queues, for %s is one of %s. For one of them: where: %s", c.Name, list(values), p.in(&c, values[:1]))
		}
	}
	p.payload()
}

const payloadNames = " payload body data args kwargs arguments parameters params request message document content input command json "

func (p *proposer) payload() {
	var one []adopted.Column
	for _, c := range p.on.Columns {
		if p.taken[c.Name] {
			continue
		}
		named := slices.ContainsFunc(words(c.Name), func(w string) bool { return strings.Contains(payloadNames, " "+w+" ") })
		if c.Kind == adopted.Document || named && (c.Kind == adopted.Text || c.Kind == adopted.Blob || c.Kind == adopted.Other) {
			one = append(one, c)
		}
	}
	if len(one) != 1 {
		p.why("payload", "no one column is the payload by its name: handlers get the whole row")
		return
	}
	c := one[0]
	p.m.Payload.Columns = mapping.Columns{c.Name}
	p.m.Payload.JSON = c.Kind != adopted.Document && p.data.json[c.Name]
	p.why("payload", "%s is the payload by its name or type", c.Name)
	if p.m.Payload.JSON {
		p.why("payload.json", "the rows that were looked at hold JSON there")
	}
}

// times says how columns hold times whose type does not tell.
func (p *proposer) times() {
	var unknown []string
	for _, c := range []*adopted.Column{p.started, p.timeout, p.notBefore, p.finished, p.created} {
		if c == nil || c.Kind == adopted.Instant {
			continue
		}
		f, sure := p.of.timesOf(*c, p.data.sample[c.Name])
		if sure {
			p.m.Times = f
			p.why("times", "%s holds, or has as its default, times of this format", c.Name)
			return
		}
		if p.formatless(*c) {
			p.unsure("times", "%s holds %.40q, which fits none of the formats (%s)", c.Name, p.data.sample[c.Name], adopted.Formats())
			continue
		}
		if unknown = append(unknown, c.Name); p.m.Times == "" {
			p.m.Times = f
		}
	}
	for _, c := range []*adopted.Column{p.started, p.timeout, p.notBefore} {
		if c == nil || c.Kind == adopted.Instant {
			continue
		}
		if _, err := p.d.Clock(*c, p.m.Times); err != nil { // the default of each type, then
			p.m.Times = ""
		}
	}
	if len(unknown) > 0 {
		p.unsure("times", "not known: nothing tells how %s hold times; see that it is as other programs write them", strings.Join(unknown, ", "))
	}
}
