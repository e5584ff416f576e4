package adopt

import (
	"time"
)

func (p *plan) setTimes() (err error) {
	for _, f := range []struct {
		field, name string
		to          **timed
	}{
		{"not_before", p.NotBefore, &p.before},
		{"claim.started_at", p.Claim.StartedAt, &p.started},
		{"claim.timeout", p.Claim.Timeout, &p.timeout},
	} {
		if f.name == "" {
			continue
		}
		c, err := p.named(f.field, f.name)
		if err != nil {
			return err
		}
		k, err := p.d.clock(c, p.timesOf(c))
		if err != nil {
			return invalid(f.field, "%s %v", f.name, err)
		}
		if k.grain > time.Second && f.to != &p.before {
			return invalid(f.field, "%s is of type %s: whole days are too coarse for a lease", f.name, c.decl)
		}
		*f.to = &timed{c, k}
	}
	return nil
}

// timesOf is the mapping's format for columns whose type leaves it open.
func (p *plan) timesOf(c column) TimeFormat {
	if c.kind == instant {
		return ""
	}
	return p.Times
}

func (p *plan) setFence() error {
	c := p.Claim
	for _, f := range []struct{ field, name string }{
		{"claim.token", c.Token}, {"claim.locked_by", c.LockedBy}, {"claim.attempts", c.Attempts},
	} {
		if f.name == "" {
			continue
		}
		found, err := p.named(f.field, f.name)
		if err != nil {
			return err
		}
		switch f.field {
		case "claim.token":
			if _, err := p.d.token("", found); err != nil {
				return invalid(f.field, "%s %v", f.name, err)
			}
		case "claim.locked_by":
			if found.kind != text && found.kind != other {
				return invalid(f.field, "%s is of type %s; the name of a worker needs text", f.name, found.decl)
			}
		case "claim.attempts":
			if found.kind != integer && found.kind != number {
				return invalid(f.field, "%s is of type %s; attempts need whole numbers", f.name, found.decl)
			}
		}
		p.fence = append(p.fence, found)
	}
	if c.Token != "" {
		p.fence = p.fence[:1]
	} else if p.started != nil {
		p.fence = append(p.fence, p.started.column)
	}
	if len(p.fence) == 1 && p.started != nil && p.fence[0].name == p.started.name && !p.SideTable && p.started.grain > time.Millisecond {
		return invalid("claim.started_at", "%s holds %s, so that two claims of a row within one would look alike: name locked_by, attempts or token too, or set side_table", p.started.name, p.started.steps())
	}
	if len(p.fence) == 0 && !p.SideTable && p.Marked() {
		return invalid("claim", "writes nothing that tells one claim from another: name a token, locked_by or started_at column, or set side_table")
	}
	return nil
}
