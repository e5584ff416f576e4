package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// chart shows the last hour of one queue or of all: bars for enqueued jobs, a line for completed ones, and
// marks for deaths.
type chart struct {
	Bars    []bar
	Line    string // points of an SVG polyline
	Most    int64  // the highest number in one minute
	Hour    admin.Minute
	Label   string // says in words what the chart shows
	Minutes int
}

type bar struct {
	X, Y, H float64
	Dead    float64 // height of the mark for deaths; 0: none
	Title   string
}

// Top is where the mark for deaths begins.
func (b bar) Top() float64 { return chartHeight - b.Dead }

// From is how many minutes ago the first began.
func (c *chart) From() int { return c.Minutes - 1 }

const chartHeight = 100.0

// chartOf draws minutes, oldest first. A bar is one unit wide.
func chartOf(minutes []admin.Minute) *chart {
	if len(minutes) == 0 {
		return nil
	}
	c := &chart{Minutes: len(minutes)}
	for _, m := range minutes {
		c.Most = max(c.Most, m.Enqueued, m.Succeeded, m.Died)
		c.Hour.Enqueued += m.Enqueued
		c.Hour.Succeeded += m.Succeeded
		c.Hour.Failed += m.Failed
		c.Hour.Died += m.Died
	}
	height := func(n int64) float64 {
		if n == 0 || c.Most == 0 {
			return 0
		}
		return max(1, chartHeight*float64(n)/float64(c.Most))
	}
	var points strings.Builder
	for i, m := range minutes {
		h := height(m.Enqueued)
		c.Bars = append(c.Bars, bar{
			X: float64(i), Y: chartHeight - h, H: h, Dead: height(m.Died),
			Title: fmt.Sprintf("%s: %s in, %s completed, %s failed, %s dead", m.At.UTC().Format("15:04 UTC"), count(m.Enqueued), count(m.Succeeded), count(m.Failed), count(m.Died)),
		})
		fmt.Fprintf(&points, "%.1f,%.1f ", float64(i)+0.5, chartHeight-height(m.Succeeded))
	}
	c.Line = strings.TrimSpace(points.String())
	c.Label = fmt.Sprintf("In the last hour: %s in, %s completed, %s failed, %s dead; at most %s in one minute.",
		plural(c.Hour.Enqueued, "job"), count(c.Hour.Succeeded), verb(c.Hour.Failed, "attempt", "attempts"), count(c.Hour.Died), count(c.Most))
	return c
}

const (
	chartTime  = time.Hour       // how far back charts reach
	chartFresh = 5 * time.Second // how old charts may be: one bar is a minute
)
