package adopted

// Statistics come from the times that a table has: when a row's time came, when its claim began, and when it ended.

// RatesRows is how many rows of a table are read for that.
const RatesRows = 20_000

// DueAt is the column by which a row's time comes, or that says when it was made; nil: there is none.
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
		again := p.PutBack.Set[a.To.Name] != nil
		if p.Completed.Set[a.To.Name] == "$now" && !again && (p.Started == nil || p.Started.Name != a.To.Name) {
			return p.timeIn(a.To)
		}
	}
	return nil
}

// timeIn is a column that holds times by its type.
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

// DueMicros is when a row's time came, in microseconds since 1970, or null; BeganMicros and EndedMicros likewise.
func (p piece) DueMicros() string   { return p.microsOf(p.DueAt()) }
func (p piece) BeganMicros() string { return p.microsOf(p.Started) }
func (p piece) EndedMicros() string { return p.microsOf(p.EndedAt()) }

func (p *Plan) microsOf(t *Timed) string {
	if t == nil {
		return "null"
	}
	return t.micros(t.Column.SQL())
}

// Done is true for rows that have completed, as far as constants that the outcome sets tell.
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

// Recent keeps, where an index leads to them, the rows that have ended in the window, the newest first.
func (p piece) Recent() string {
	if !p.IndexedEnd() {
		return ""
	}
	t := p.EndedAt()
	return t.Column.SQL() + " >= " + t.After("-300") + " order by " + t.Column.SQL() + " desc"
}

// IndexedEnd reports whether an index leads to the rows that ended last.
func (p *Plan) IndexedEnd() bool { return p.On.Led(p.EndedAt().Name) }

// Most is how many rows are read, and one more to see that there are.
func (p piece) Most() int { return RatesRows + 1 }
