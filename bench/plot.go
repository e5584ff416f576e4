package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// plot draws W5 and W6 of the results in a file: w5.svg, w5-free.svg for W5 without a held
// snapshot, and w6.svg in the directory.
// The same results give the same bytes.
func plot(path, dir string) error {
	r, err := readResults(path)
	if err != nil {
		return err
	}
	drawn := 0
	for _, w := range r.Workloads {
		c, name := chart{}, strings.ToLower(w.ID)
		switch w.ID {
		case "W5":
			c = overTime(w)
			if !strings.HasSuffix(w.Name, workload.BesideSnapshot) {
				name += "-free"
			}
		case "W6":
			c = overDepth(w)
		default:
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(c.svg()), 0o644); err != nil {
			return err
		}
		drawn++
	}
	if drawn == 0 {
		return fmt.Errorf("%s holds neither W5 nor W6", path)
	}
	return nil
}

// chart is a picture of curves. Its y axis begins at 0.
type chart struct {
	title, x, y string
	ticks       []tick // ticks of the x axis, from left to right
	curves      []curve
}

type tick struct {
	position float64
	text     string
}

type curve struct {
	name   string
	colour string
	points []point
}

// point is a median and its spread.
type point struct{ x, y, low, high float64 }

// queues are drawn in this order.
var queues = []string{"dibs", riverProduct.Name, graphileName, pgBossName}

var colours = map[string]string{"dibs": "#1b6ca8", riverProduct.Name: "#c8553d", graphileName: "#3a7d44", pgBossName: "#8a5a9e"}

// overTime draws W5: jobs/s over time, as the median of the rounds.
func overTime(w result) chart {
	c := chart{title: "Jobs per second: " + w.Name, x: "seconds", y: "jobs/s"}
	seconds := workload.LoopTime.Seconds()
	for second := 0.0; second <= seconds; second += 15 {
		c.ticks = append(c.ticks, tick{second, fmt.Sprint(second)})
	}
	for _, name := range queues {
		rounds := w.Series[name]
		if len(rounds) == 0 {
			continue
		}
		line := curve{name: name, colour: colours[name]}
		for i := range rounds[0] {
			var all []float64
			for _, round := range rounds {
				all = append(all, round[i])
			}
			s := workload.NewSpread(all)
			line.points = append(line.points, point{(float64(i) + 0.5) * seconds / workload.LoopWindows, s.Median, s.Min, s.Max})
		}
		c.curves = append(c.curves, line)
	}
	return c
}

// overDepth draws W6: the time of a claim over the number of waiting jobs.
func overDepth(w result) chart {
	c := chart{title: "Time of a claim of 100 jobs", x: "jobs waiting", y: "ms, median"}
	line := curve{name: "dibs", colour: colours["dibs"]}
	for _, f := range w.Rows {
		s, ok := f.By["dibs"]
		if f.X == 0 || !ok {
			continue
		}
		position := math.Log10(f.X)
		c.ticks = append(c.ticks, tick{position, round(f.X)})
		line.points = append(line.points, point{position, s.Median, s.Min, s.Max})
	}
	c.curves = []curve{line}
	return c
}

// round formats a round number.
func round(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case v >= 1000:
		return fmt.Sprintf("%.4gk", v/1000)
	}
	return fmt.Sprintf("%.4g", v)
}

// The picture's measures, in its own units.
const (
	svgWidth, svgHeight                = 720, 360
	svgLeft, svgRight, svgTop, svgFoot = 70, 90, 40, 50
)

func (c chart) svg() string {
	step, top := c.scale()
	first, last := c.ticks[0].position, c.ticks[len(c.ticks)-1].position
	x := func(v float64) float64 { return svgLeft + (v-first)/(last-first)*(svgWidth-svgLeft-svgRight) }
	y := func(v float64) float64 { return svgHeight - svgFoot - v/top*(svgHeight-svgTop-svgFoot) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#444">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15" fill="#222">%s</text>`+"\n", svgLeft, c.title)
	for v := 0.0; v <= top*1.001; v += step {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%d" stroke="#ddd"/>`, x(first), y(v), svgWidth-svgRight)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", svgLeft-8, y(v)+4, round(v))
	}
	for _, t := range c.ticks {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(t.position), svgHeight-svgFoot+18, t.text)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x((first+last)/2), svgHeight-12, c.x)
	fmt.Fprintf(&b, `<text transform="translate(16 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", y(top/2), c.y)
	for _, line := range c.curves {
		var path strings.Builder
		for i, p := range line.points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x(p.x), y(p.y))
			fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="%s" opacity="0.4"/>`, x(p.x), y(p.low), y(p.high), line.colour)
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x(p.x), y(p.y), line.colour)
		}
		end := line.points[len(line.points)-1]
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), line.colour)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="%s">%s</text>`+"\n", svgWidth-svgRight+8, y(end.y)+4, line.colour, line.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale chooses about five grid lines, at round numbers; the top one is not below any point.
func (c chart) scale() (step, top float64) {
	highest := 0.0
	for _, line := range c.curves {
		for _, p := range line.points {
			highest = max(highest, p.high)
		}
	}
	if highest == 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(highest)))
	for _, part := range []float64{0.2, 0.5, 1} {
		if highest/(part*step) <= 6 {
			step *= part
			break
		}
	}
	if highest/step > 6 {
		step *= 2
	}
	return step, step * math.Ceil(highest/step)
}
