package torture

import (
	"fmt"
	"slices"
	"time"
)

// timeline is the picture of a story. Each client has a lane, and time runs from left to right.
type timeline struct {
	Width, Height int
	Left          int // the x at which time begins
	Lanes         []lane
	Ticks         []tickMark
	Leases        []rect
	Strikes       []rect
	Marks         []mark
	Lines         []storyLine
}

type lane struct {
	Y    int
	Name string
}

type tickMark struct {
	X    float64
	Text string
}

type rect struct {
	X, Y, Width, Height float64
	Class, Title        string
}

type mark struct {
	X, Y         float64
	Class, Title string
	Number       int // the number of its line in the list
}

type storyLine struct {
	Number     int
	At, Client string
	Class      string
	Text       string
}

const (
	pictureWidth = 960
	laneHeight   = 44
	laneTop      = 34
	nameWidth    = 130
	markGap      = 20
	maxLines     = 60 // the most lines of a story; the rest is only in the records
)

// newTimeline draws a story. Without events it returns nil.
func newTimeline(s *Story) *timeline {
	if s == nil || len(s.Events) == 0 {
		return nil
	}
	events := s.Events[:min(len(s.Events), maxLines)]
	var clients []string
	first, last := events[0].At, events[0].At
	for _, e := range events {
		if name := laneName(e); !slices.Contains(clients, name) {
			clients = append(clients, name)
		}
		for _, t := range []time.Time{e.At, e.End} {
			if t.After(last) {
				last = t
			}
		}
	}
	span := max(last.Sub(first), time.Millisecond)
	p := &timeline{Width: pictureWidth, Height: laneTop + laneHeight*len(clients) + 8, Left: nameWidth}
	x := func(t time.Time) float64 {
		return nameWidth + 12 + float64(pictureWidth-nameWidth-36)*float64(max(t.Sub(first), 0))/float64(span)
	}
	for i, name := range clients {
		p.Lanes = append(p.Lanes, lane{laneTop + i*laneHeight, name})
	}
	p.ticks(span, func(d time.Duration) float64 { return x(first.Add(d)) })
	for i, e := range events {
		y := float64(laneTop + slices.Index(clients, laneName(e))*laneHeight)
		p.draw(s, e, i+1, x(e.At), x(s.leaseEnd(e)), y)
		p.Lines = append(p.Lines, storyLine{i + 1, fmt.Sprintf("%.3f", e.At.Sub(first).Seconds()), laneName(e), string(e.Sort), e.Text})
	}
	return p
}

func laneName(e Event) string {
	if e.Client == "" {
		return "the server"
	}
	return e.Client
}

// draw adds one event.
func (p *timeline) draw(s *Story, e Event, number int, from, to, y float64) {
	title := fmt.Sprintf("%d: %s %s", number, laneName(e), e.Text)
	switch e.Sort {
	case Claimed, Extended:
		p.Leases = append(p.Leases, rect{from, y + 28, max(to-from, 2), 9, "lease", title})
	case Struck:
		p.Strikes = append(p.Strikes, rect{from, y + 4, max(to-from, 3), laneHeight - 8, "strike", title})
	}
	x := from
	for _, m := range p.Marks { // marks that would overlap are put side by side
		if m.Y == y+15 && m.X+markGap > x {
			x = m.X + markGap
		}
	}
	p.Marks = append(p.Marks, mark{x, y + 15, string(e.Sort), title, number})
}

// leaseEnd returns when a lease ended: by an outcome, another extension, a resume, or by
// itself. If the job was claimed again earlier, an outcome without an answer had ended it.
func (s *Story) leaseEnd(e Event) time.Time {
	if e.Sort != Claimed && e.Sort != Extended {
		return e.End
	}
	mayHaveEnded := false // an outcome without an answer may have ended the lease
	for _, f := range s.Events {
		own := f.Client == e.Client
		switch {
		case !f.At.After(e.At) || !f.At.Before(e.End):
		case own && (f.Sort == Accepted || f.Sort == Extended), f.Sort == Claimed && (mayHaveEnded || f.resumed):
			return f.At
		case own && f.Sort == Unanswered:
			mayHaveEnded = true
		}
	}
	return e.End
}

// ticks marks at most nine round times, in steps of 1, 2, 5, 10, 20, 50 and so on.
func (p *timeline) ticks(span time.Duration, x func(time.Duration) float64) {
	step := 10 * time.Millisecond
	for i := 0; span/step > 8; i++ {
		if i%3 == 1 {
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
	for d := time.Duration(0); d <= span; d += step {
		p.Ticks = append(p.Ticks, tickMark{x(d), fmt.Sprintf("%g s", d.Seconds())})
	}
}
