package adopted

import (
	"maps"
	"slices"
	"strings"
)

// Spent is a condition for rows that wait although their attempts are used up, which no claim takes; empty: there can be none.
func (p *Plan) Spent() string {
	if !p.LimitsAttempts() || p.SideTable {
		return ""
	}
	return p.Waiting() + " and " + p.spent()
}

// AllAttempts is SQL that gives such rows all their attempts back.
func (p *Plan) AllAttempts() string {
	return p.Dialect.Qualified("update " + p.Table + " as t set " + Quote(p.Claim.Attempts) + " = 0 where " + p.Spent())
}

// EndedDead is a condition for rows that have ended as dead, by what "dead" sets and "completed" does not; empty: nothing
// tells them from others.
func (p *Plan) EndedDead() string {
	if p.Dead == nil || p.Dead.Delete {
		return ""
	}
	var marks []string
	for _, name := range slices.Sorted(maps.Keys(p.Dead.Set)) {
		c, _ := p.On.Column(name)
		value, done := p.Dead.Set[name], p.Completed.Set[name]
		text, _ := value.(string)
		_, set := p.Completed.Set[name]
		switch {
		case text == "$now" || text == "$error":
			if !set || done == nil {
				marks = append(marks, c.SQL()+" is not null")
			}
		case strings.HasPrefix(text, "$") && !strings.HasPrefix(text, "$$"), set && value == done:
		case value == nil:
			marks = append(marks, c.SQL()+" is null")
		default:
			marks = append(marks, c.SQL()+" = "+p.value(c, value, Values{}))
		}
	}
	if len(marks) == 0 {
		return ""
	}
	return strings.Join(append(marks, p.Ended()), " and ")
}

// Ended is a condition for rows of this queue that have ended.
func (p *Plan) Ended() string {
	ended := "(" + p.Unfinished + ") is not true"
	if p.Where != "" {
		ended += " and (" + p.Where + ")"
	}
	return ended
}
