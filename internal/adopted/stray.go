package adopted

// A stray is an unfinished row that is not available, and has no lease in the side table:
// another program took it by the table's own columns and runs it, or has crashed.

// Stray is a condition for the strays of this queue; empty: there can be none.
func (p *Plan) Stray() string {
	if !p.SideTable || p.Available == "" {
		return ""
	}
	return p.Open + " and (" + p.Available + ") is not true and (" + piece{Plan: p}.taken() + ") is not true"
}

// StrayLate is a condition for strays whose lease has ended by the table's own columns; empty: no column says so.
//
// A claim writes these columns, so a row that is claimed meanwhile is no longer late.
func (p *Plan) StrayLate() string {
	if p.Stray() == "" || !p.Marked() || p.Timeout == nil && p.Started == nil {
		return ""
	}
	return p.lateWhere() + " and (" + piece{Plan: p}.taken() + ") is not true"
}

// DeadBeside is a condition for rows that are dead in the side table.
func (p *Plan) DeadBeside() string {
	return "exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key + " and s.dead = 1)"
}
