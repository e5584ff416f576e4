package adopted

import (
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

func (p *Plan) setTimes() (err error) {
	for _, f := range []struct {
		field, name string
		to          **Timed
	}{
		{"not_before", p.NotBefore, &p.Before},
		{"claim.started_at", p.Claim.StartedAt, &p.Started},
		{"claim.timeout", p.Claim.Timeout, &p.Timeout},
	} {
		if f.name == "" {
			continue
		}
		c, err := p.named(f.field, f.name)
		if err != nil {
			return err
		}
		k, err := p.Dialect.Clock(c, p.TimesOf(c))
		if err != nil {
			return Invalid(f.field, "%s %v", f.name, err)
		}
		if k.Grain > time.Second && f.to != &p.Before {
			return Invalid(f.field, "%s is of type %s: whole days are too coarse for a lease", f.name, c.Decl)
		}
		*f.to = &Timed{c, k}
	}
	return nil
}

// TimesOf is the mapping's time format; empty if the column's type fixes the format.
func (p *Plan) TimesOf(c Column) mapping.TimeFormat {
	if c.Kind == Instant {
		return ""
	}
	return p.Times
}

func (p *Plan) setFence() error {
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
			if _, err := p.Dialect.Token("", found); err != nil {
				return Invalid(f.field, "%s %v", f.name, err)
			}
		case "claim.locked_by":
			if found.Kind != Text && found.Kind != Other {
				return Invalid(f.field, "%s is of type %s; the name of a worker needs text", f.name, found.Decl)
			}
		case "claim.attempts":
			if found.Kind != Integer && found.Kind != Number {
				return Invalid(f.field, "%s is of type %s; attempts need whole numbers", f.name, found.Decl)
			}
		}
		p.Fence = append(p.Fence, found)
	}
	if c.Token != "" {
		p.Fence = p.Fence[:1]
	} else if p.Started != nil {
		p.Fence = append(p.Fence, p.Started.Column)
	}
	if len(p.Fence) == 1 && p.Started != nil && p.Fence[0].Name == p.Started.Name && !p.SideTable && p.Started.Grain > time.Millisecond {
		return Invalid("claim.started_at", "%s holds %s: two claims of a row within one of these would look alike; name locked_by, attempts or token too, or set side_table", p.Started.Name, p.Started.Steps())
	}
	if len(p.Fence) == 0 && !p.SideTable && p.Marked() {
		return Invalid("claim", "writes nothing that tells one claim from another: name a token, locked_by or started_at column, or set side_table")
	}
	return nil
}
