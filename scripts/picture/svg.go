package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"time"
)

const (
	charWidth  = 8.4
	lineHeight = 18
	margin     = 20

	speed = 2               // how much faster than it was
	hold  = 8 * time.Second // how long the last frame stays, before all begins again
)

// colors are those of a terminal's codes that the command uses.
var colors = map[int]string{31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 36: "#56d4dd"}

// draw shows the frames one after the other, without end. What cannot move a picture
// shows the last one.
func draw(frames []frame) []byte {
	var b bytes.Buffer
	width, height := 2*margin+columns*charWidth, 2*margin+rows*lineHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d"`, width, height, width, height)
	b.WriteString(` font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="#e6edf3">` + "\n")
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="10" fill="#0d1117"/>`+"\n")
	end := frames[len(frames)-1].at/speed + hold
	for row := range rows {
		for from := 0; from < len(frames); {
			to := from + 1
			for to < len(frames) && slices.Equal(frames[to].rows[row], frames[from].rows[row]) {
				to++
			}
			if line := frames[from].rows[row]; len(line) > 0 {
				drawLine(&b, row, line, shownFor(frames, from, to, end))
			}
			from = to
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// shownFor makes a line visible from one frame to another, that one not included.
func shownFor(frames []frame, from, to int, end time.Duration) string {
	part := func(i int) float64 {
		if i == len(frames) {
			return 1
		}
		return float64(frames[i].at/speed) / float64(end)
	}
	if from == 0 && to == len(frames) {
		return "" // always
	}
	first, values, times := "hidden", "hidden;visible;hidden", fmt.Sprintf("0;%.4f;%.4f", part(from), part(to))
	switch {
	case to == len(frames):
		first, values, times = "visible", "hidden;visible", fmt.Sprintf("0;%.4f", part(from))
	case from == 0:
		values, times = "visible;hidden", fmt.Sprintf("0;%.4f", part(to))
	}
	return fmt.Sprintf(` visibility="%s"><animate attributeName="visibility" calcMode="discrete" dur="%.1fs" repeatCount="indefinite" values="%s" keyTimes="%s"/`,
		first, end.Seconds(), values, times)
}

func drawLine(b *bytes.Buffer, row int, line []span, visible string) {
	fmt.Fprintf(b, `<text y="%d"%s>`, margin+row*lineHeight+lineHeight*3/4, visible)
	for _, s := range line {
		fmt.Fprintf(b, `<tspan x="%.1f"%s>`, margin+float64(s.col)*charWidth, s.style.attributes())
		_ = xml.EscapeText(b, []byte(s.text)) // a buffer takes everything
		b.WriteString("</tspan>")
	}
	b.WriteString("</text>\n")
}

func (s style) attributes() string {
	var a string
	if s.color != 0 {
		a += fmt.Sprintf(` fill="%s"`, colors[s.color])
	}
	if s.bold {
		a += ` font-weight="bold"`
	}
	if s.faint {
		a += ` opacity="0.6"`
	}
	return a
}
