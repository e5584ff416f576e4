package adopt

// Statistics come from the times that a table has: when a row's time came, when its claim began, and when it ended.

// ratesRows is how many rows of a table are read for that.
const ratesRows = 20_000

// due is the column by which a row's time comes, or that says when it was made; nil: there is none.
func (p *plan) due() *timed {
	if p.before != nil {
		return p.before
	}
	if len(p.Mapping.Order) == 0 {
		return nil
	}
	return p.timeIn(p.order[0].column)
}

// ended is the column that says when a row ended; nil: there is none.
func (p *plan) ended() *timed {
	for _, a := range p.assign(p.Completed.Set, values{}) {
		again := p.PutBack.Set[a.to.name] != nil
		if p.Completed.Set[a.to.name] == "$now" && !again && (p.started == nil || p.started.name != a.to.name) {
			return p.timeIn(a.to)
		}
	}
	return nil
}

// timeIn is a column that holds times by its type.
func (p *plan) timeIn(c column) *timed {
	if c.kind != instant && c.kind != stamp {
		return nil
	}
	k, err := p.d.clock(c, p.timesOf(c))
	if err != nil {
		return nil
	}
	return &timed{c, k}
}

// DueMicros, BeganMicros and EndedMicros are these times in microseconds since 1970, or null.
func (p piece) DueMicros() string   { return p.microsOf(p.due()) }
func (p piece) BeganMicros() string { return p.microsOf(p.started) }
func (p piece) EndedMicros() string { return p.microsOf(p.ended()) }

func (p *plan) microsOf(t *timed) string {
	if t == nil {
		return "null"
	}
	return t.micros(t.column.sql())
}

// Done is true for rows that have completed, as far as constants that the outcome sets tell.
func (p piece) Done() string {
	done := "1 = 1"
	for _, a := range p.assign(p.Completed.Set, values{}) {
		switch v := p.Completed.Set[a.to.name].(type) {
		case nil:
			continue
		case string:
			if len(v) > 0 && v[0] == '$' {
				continue
			}
		}
		done += " and " + p.is(a.to, a.expr)
	}
	return done
}

// Recent keeps, where an index leads to them, the rows that have ended in the window, the newest first.
func (p piece) Recent() string {
	if !p.indexedEnd() {
		return ""
	}
	t := p.ended()
	return t.column.sql() + " >= " + t.after("-300") + " order by " + t.column.sql() + " desc"
}

func (p *plan) indexedEnd() bool { return p.on.led(p.ended().name) }

// Most is how many rows are read, and one more to see that there are.
func (p piece) Most() int { return ratesRows + 1 }
