package adopted

// A stray is an unfinished row that is not available and that no lease of the side table
// holds: a program that took it by the table's own columns is at it, or has crashed.

// Stray is true for strays of this queue; empty: there can be none.
func (p *Plan) Stray() string {
	if !p.SideTable || p.Available == "" {
		return ""
	}
	return p.Open + " and (" + p.Available + ") is not true and (" + piece{Plan: p}.taken() + ") is not true"
}

// StrayLate is true for strays whose time by the table's own columns is over; empty: these do not tell.
//
// A claim writes these columns, so a row that is claimed meanwhile is late no more.
func (p *Plan) StrayLate() string {
	if p.Stray() == "" || !p.Marked() || p.Timeout == nil && p.Started == nil {
		return ""
	}
	return p.lateWhere() + " and (" + piece{Plan: p}.taken() + ") is not true"
}

// DeadBeside is true for rows that only the side table knows to be dead.
func (p *Plan) DeadBeside() string {
	return "exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key + " and s.dead = 1)"
}
