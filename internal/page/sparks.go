package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/admin"
)

// sparks is a small chart. A bar is one unit wide, and the highest bar 20 units high.
type sparks struct {
	Bars  string // path of an SVG
	Dead  string // path of marks for deaths in front of the bars
	Line  string // points of a line
	Width int
	Label string // says in words what the chart shows
}

const sparksHeight = 20.0

// sparksOfDeaths shows the jobs of a group that died in each hour of the last day.
func sparksOfDeaths(counts []int) sparks {
	most, sum := 0, 0
	for _, n := range counts {
		most = max(most, n)
		sum += n
	}
	if sum == 0 {
		return sparks{Label: "none in the last 24 hours"}
	}
	return sparks{
		Dead: bars(len(counts), func(i int) float64 { return float64(counts[i]) / float64(most) }), Width: len(counts),
		Label: fmt.Sprintf("%s in the last 24 hours, at most %s in one", count(sum), count(most)),
	}
}

// sparksOfHour shows what came into a queue in each minute as bars, what was completed as a line, deaths as marks.
func sparksOfHour(minutes []admin.Minute) sparks {
	c := chartOf(minutes)
	if c == nil || c.Most == 0 {
		return sparks{Label: "nothing in the last hour"}
	}
	part := func(n int64) float64 { return float64(n) / float64(c.Most) }
	s := sparks{
		Bars: bars(len(minutes), func(i int) float64 { return part(minutes[i].Enqueued) }),
		Dead: bars(len(minutes), func(i int) float64 { return part(minutes[i].Died) }), Width: len(minutes), Label: c.Label,
	}
	if slices.ContainsFunc(minutes, func(m admin.Minute) bool { return m.Succeeded > 0 }) {
		var line strings.Builder
		for i, m := range minutes {
			fmt.Fprintf(&line, "%d,%.0f ", i, sparksHeight*(1-part(m.Succeeded)))
		}
		s.Line = strings.TrimSpace(line.String())
	}
	return s
}

// bars draws n bars, of 0 to 1 each.
func bars(n int, part func(i int) float64) string {
	var path strings.Builder
	for i := range n {
		if p := part(i); p > 0 {
			h := max(1, int(math.Round(sparksHeight*p))) // a whole number, to save bytes: a page may have hundreds of these charts
			fmt.Fprintf(&path, "M%d 20v-%dh.8v%dz", i, h, h)
		}
	}
	return path.String()
}
