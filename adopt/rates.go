package adopt

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
)

// Statistics from the times that a table has: when a row's time came (not_before, else the first
// column of the order), when its claim began (started_at), and when it ended (what "completed"
// sets to the time).

const (
	ratesWindow = 5 * time.Minute
	ratesRows   = 20_000 // how many rows of a table are read for that
)

// Known says which statistics a store can tell, by the times that its mapping names.
type Known struct {
	Oldest bool // how long the oldest row has been due
	Wait   bool // from a row's time to its claim
	Run    bool // from its claim to its end
	Rate   bool // rows that end in a second
}

// Known says which statistics the store can tell. Wait, Run and Rate need an index that begins with the time at
// which rows end, or a table of at most 20,000 rows; else QueueStats.Window is 0.
func (s *Store) Known() Known {
	due, ended := s.plan.due(), s.plan.ended()
	began := s.plan.started != nil && ended != nil
	return Known{Oldest: due != nil, Wait: began && due != nil, Run: began, Rate: ended != nil}
}

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

// rates adds to the counts what the table's times tell of the last minutes.
func (s *Store) rates(ctx context.Context, to *dibs.QueueStats) error {
	if s.do.rates == nil {
		return nil
	}
	type found struct {
		read, done, waits, runs int64
		wait, run               sql.NullFloat64
		first, now              sql.NullInt64
	}
	all, err := run(ctx, s.db, s.do.rates, nil, func(rows *sql.Rows) (f found, err error) {
		return f, rows.Scan(&f.read, &f.done, &f.waits, &f.wait, &f.runs, &f.run, &f.first, &f.now)
	})
	if err != nil {
		return err
	}
	f := all[0]
	to.Window = ratesWindow
	if f.read > ratesRows {
		if !s.plan.indexedEnd() { // the newest may not be among them
			to.Window = 0
			return nil
		}
		to.Window = max(time.Duration(f.now.Int64-f.first.Int64)*time.Microsecond, time.Second)
	}
	micros := func(v sql.NullFloat64) time.Duration { return max(0, time.Duration(v.Float64)*time.Microsecond) }
	to.Claimed, to.AvgWait = f.waits, micros(f.wait)
	to.Succeeded, to.AvgRun = f.done, micros(f.run)
	to.Throughput = float64(f.done) / to.Window.Seconds()
	return nil
}
