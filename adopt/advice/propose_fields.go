package advice

import (
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// claims proposes what a claim writes. It proposes the side table if no column can hold a lease.
func (p *proposer) claims() {
	c := &p.m.Claim
	for _, f := range []struct {
		field  string
		column *adopted.Column
		name   *string
		why    string
	}{
		{"claim.token", p.token, &c.Token, "%s can hold the token of a claim, which fences it"},
		{"claim.locked_by", p.lockedBy, &c.LockedBy, "%s by its name says which worker has claimed a row"},
		{"claim.started_at", p.started, &c.StartedAt, "%s by its name says when work on a row began"},
		{"claim.timeout", p.timeout, &c.Timeout, "%s by its name says when a claim ends"},
		{"claim.attempts", p.attempts, &c.Attempts, "%s by its name counts attempts"},
		{"not_before", p.notBefore, &p.m.NotBefore, "%s by its name says from when on a row may be claimed"},
	} {
		if f.column != nil {
			*f.name = f.column.Name
			p.why(f.field, f.why, f.column.Name)
		}
	}
	if s := p.states; s.showClaims() && len(s.running) > 1 {
		p.unsure("claim.set", "%s is set to %q; other values of running rows are %s", p.status.Name, s.running[0], list(s.running[1:]))
	}
	if s := p.states; s.showClaims() && len(s.fresh) > 1 {
		p.unsure("put_back.set", "%s is set to %q; the values of waiting rows are %s", p.status.Name, s.putBack(), list(s.fresh))
	}
	p.m.Lease = time.Minute
	lease := "not known: how long the rows of a killed worker stay claimed; other workers extend their claims"
	if p.started == nil && p.timeout == nil || p.m.Available == "" {
		p.m.SideTable = true
		p.why("side_table", "the table has no column for the time that ends a killed worker's claim; a table dibs_adopted keeps leases, attempts, delays and errors. "+
			"It is created when the mapping is first used, which needs the right to create a table in that schema")
	} else {
		lease += ". Use the time after which other programs take such rows again, if they do"
	}
	p.unsure("lease", "%s", lease)
}

// put sets a column, if there is one, to a value, if there is one. It writes the value in the type of the column.
func put(to mapping.Set, c *adopted.Column, value any) {
	if c == nil || value == nil {
		return
	}
	text, isText := value.(string)
	switch {
	case isText && c.Kind == adopted.Integer && !strings.HasPrefix(text, "$"):
		value = int(adopted.Atoi(text))
	case !isText && c.Kind != adopted.Boolean:
		value = map[any]int{true: 1, false: 0}[value]
	}
	to[c.Name] = value
}

func (p *proposer) order() {
	if p.priority != nil {
		p.m.Order = append(p.m.Order, p.priority.Name)
		p.unsure("order", "not known whether small or large numbers of %s come first; if large ones do, write %q", p.priority.Name, p.priority.Name+" desc")
	}
	for _, c := range []*adopted.Column{p.created, p.notBefore} {
		if c != nil {
			p.m.Order = append(p.m.Order, c.Name)
			p.why("order", "by %s the oldest rows come first; among equals, the smaller id", c.Name)
			break
		}
	}
	for _, name := range p.m.ID { // the key of a partitioned table may contain its time
		if c, ok := p.table.Column(name); ok && len(p.m.Order) == 0 && len(p.m.ID) > 1 && p.isTime(c) {
			p.m.Order = mapping.Columns{name}
			p.why("order", "by %s the oldest rows come first; among equals, the smaller id", name)
		}
	}
	if len(p.m.Order) == 0 && len(p.m.ID) == 1 {
		if c, _ := p.table.Column(p.m.ID[0]); c.Kind == adopted.Integer {
			p.m.Order = p.m.ID
			p.why("order", "there is no time of creation; ids that count up give the same order")
		}
	}
}

// otherFields proposes kind and payload, and warns if the table may hold several queues.
func (p *proposer) otherFields() {
	if p.kind != nil {
		p.m.Kind = p.kind.Name
		if isNamed(*p.kind, "kind type") {
			p.why("kind", "%s by its name says what kind of work a row is", p.kind.Name)
		} else {
			p.unsure("kind", "only its name suggests that %s says what kind of work a row is: remove it unless each of its values has a handler", p.kind.Name)
		}
	}
	for _, c := range p.table.Columns {
		if values := p.data.values[c.Name]; len(values) > 1 && !p.taken[c.Name] && isNamed(c, "queue channel topic") {
			p.taken[c.Name] = true
			p.unsure("where", "not known: the table may hold several queues, since %s is one of %s. For one of them, write where: %s", c.Name, list(values), p.equals(&c, values[:1]))
		}
	}
	p.payload()
}

const payloadNames = "payload body data args kwargs arguments parameters params request message document content input command json handler"

func (p *proposer) payload() {
	var one []adopted.Column
	for _, c := range p.table.Columns {
		if p.taken[c.Name] {
			continue
		}
		if c.Kind == adopted.Document || isNamed(c, payloadNames) && (c.Kind == adopted.Text || c.Kind == adopted.Blob || c.Kind == adopted.Other) {
			one = append(one, c)
		}
	}
	if len(one) != 1 {
		p.why("payload", "no single column looks like the payload by its name or type: handlers get the whole row")
		return
	}
	c := one[0]
	p.m.Payload.Columns = mapping.Columns{c.Name}
	p.m.Payload.JSON = c.Kind != adopted.Document && p.data.json[c.Name]
	p.why("payload", "%s looks like the payload by its name or type", c.Name)
	if p.m.Payload.JSON {
		p.why("payload.json", "all values that were read are JSON")
	}
}

// times proposes the format of times in columns whose type leaves it open.
func (p *proposer) times() {
	var unknown []string
	for _, c := range []*adopted.Column{p.started, p.timeout, p.notBefore, p.finished, p.created} {
		if c == nil || c.Kind == adopted.Instant {
			continue
		}
		f, sure := p.database.timesOf(*c, p.data.sample[c.Name])
		if sure {
			p.m.Times = f
			p.why("times", "the values or the default of %s have this format", c.Name)
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
		if _, err := p.dialect.Clock(*c, p.m.Times); err != nil { // the format does not fit this column: its type decides
			p.m.Times = ""
		}
	}
	if len(unknown) > 0 {
		p.unsure("times", "not known: neither values nor defaults show the format of %s; name the one that other programs write", strings.Join(unknown, ", "))
	}
}
