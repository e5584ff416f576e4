package adopt

// A stray is an unfinished row that is not available and that no lease of the side table
// holds: a program that took it by the table's own columns is at it, or has crashed.

// stray is true for strays of this queue; empty: there can be none.
func (p *plan) stray() string {
	if !p.SideTable || p.Available == "" {
		return ""
	}
	return p.Open + " and (" + p.Available + ") is not true and (" + piece{plan: p}.Taken() + ") is not true"
}

// strayLate is true for strays whose time by the table's own columns is over; empty: these do not tell.
//
// A claim writes these columns, so a row that is claimed meanwhile is late no more.
func (p *plan) strayLate() string {
	if p.stray() == "" || !p.Marked() || p.timeout == nil && p.started == nil {
		return ""
	}
	return p.lateWhere() + " and (" + piece{plan: p}.Taken() + ") is not true"
}

// deadBeside is true for rows that only the side table knows to be dead.
func (p *plan) deadBeside() string {
	return "exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key + " and s.dead = 1)"
}
