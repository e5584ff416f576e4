package adopted

// Statistics come from a table's times: from when on a row may be claimed, when its claim began, and when it ended.

// RatesRows is how many rows of a table are read for statistics.
const RatesRows = 20_000

// DueAt is the column that says from when on a row may be claimed, or else when it was created; nil: there is none.
func (p *Plan) DueAt() *Timed {
	if p.Before != nil {
		return p.Before
	}
	if len(p.Mapping.Order) == 0 {
		return nil
	}
	return p.timeIn(p.Ordering[0].Column)
}

// EndedAt is the column that says when a row ended; nil: there is none.
func (p *Plan) EndedAt() *Timed {
	for _, a := range p.Assign(p.Completed.Set, Values{}) {
		alsoPutBack := p.PutBack.Set[a.To.Name] != nil
		if p.Completed.Set[a.To.Name] == "$now" && !alsoPutBack && (p.Started == nil || p.Started.Name != a.To.Name) {
			return p.timeIn(a.To)
		}
	}
	return nil
}

// timeIn returns the column as one of times; nil: its type holds no times.
func (p *Plan) timeIn(c Column) *Timed {
	if c.Kind != Instant && c.Kind != Stamp {
		return nil
	}
	k, err := p.Dialect.Clock(c, p.TimesOf(c))
	if err != nil {
		return nil
	}
	return &Timed{c, k}
}

// DueMicros, BeganMicros and EndedMicros are SQL for these times in microseconds since 1970, or null.
func (p piece) DueMicros() string   { return p.microsOf(p.DueAt()) }
func (p piece) BeganMicros() string { return p.microsOf(p.Started) }
func (p piece) EndedMicros() string { return p.microsOf(p.EndedAt()) }

func (p *Plan) microsOf(t *Timed) string {
	if t == nil {
		return "null"
	}
	return t.micros(t.Column.SQL())
}

// Done is a condition for completed rows: they have the constants that the outcome sets.
func (p piece) Done() string {
	done := "1 = 1"
	for _, a := range p.Assign(p.Completed.Set, Values{}) {
		switch v := p.Completed.Set[a.To.Name].(type) {
		case nil:
			continue
		case string:
			if len(v) > 0 && v[0] == '$' {
				continue
			}
		}
		done += " and " + p.is(a.To, a.expr)
	}
	return done
}

// Recent selects the rows that ended within five minutes, the newest first; empty: no index finds them.
func (p piece) Recent() string {
	if !p.IndexedEnd() {
		return ""
	}
	t := p.EndedAt()
	return t.Column.SQL() + " >= " + t.After("-300") + " order by " + t.Column.SQL() + " desc"
}

// IndexedEnd reports whether an index finds the rows that ended last.
func (p *Plan) IndexedEnd() bool { return p.On.Led(p.EndedAt().Name) }

// Most is one row more than statistics use: it shows whether the table has more.
func (p piece) Most() int { return RatesRows + 1 }
