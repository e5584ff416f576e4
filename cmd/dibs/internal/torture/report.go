package torture

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/checks"
)

//go:embed report.html
var reportHTML string

var reportPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"count":    withCommas,
		"broken":   BrokenText,
		"seconds":  func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
		"short":    func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) },
		"date":     func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
		"sentence": func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	}).Parse(reportHTML))
})

// WriteReport writes a page about the run, with everything that it needs in one file.
func WriteReport(w io.Writer, r *Result) error {
	var page strings.Builder
	err := reportPage().Execute(&page, struct {
		*Result
		Recoveries *histogram
		Timeline   *timeline
		FaultRows  []faultRow
		Lease      time.Duration
		Hindered   int // recoveries that something held up
	}{r, newHistogram(r.Totals.Unhindered), newTimeline(r.Story), faultRows(r.Faults), lease, len(r.Totals.Recoveries) - len(r.Totals.Unhindered)})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, checks.Escaped(page.String())) // keys of rows may hold characters that reverse the direction of text
	return err
}

type faultRow struct {
	Number int
	Text   string
}

func faultRows(counts map[string]int) []faultRow {
	var rows []faultRow
	for _, f := range FaultTexts {
		if n := counts[f.Name]; n > 0 {
			rows = append(rows, faultRow{n, f.Text})
		}
	}
	return rows
}

// withCommas writes a number with commas.
func withCommas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// histogram shows how long after the end of their leases abandoned jobs were claimed again.
type histogram struct {
	Bars          []bar
	Width, Height int
	Base          int // the y of the axis
}

type bar struct {
	X, Y, Width, Height int
	Middle              int
	Count               int
	Label               string
}

// newHistogram sorts the times into bars of a quarter of a second. The last bar has no end.
func newHistogram(times []time.Duration) *histogram {
	const step, bars, width, gap, height = 250 * time.Millisecond, 12, 50, 6, 140
	if len(times) == 0 {
		return nil
	}
	counts, tallest := make([]int, bars), 1
	for _, t := range times {
		i := min(int(t/step), bars-1)
		counts[i]++
		tallest = max(tallest, counts[i])
	}
	h := &histogram{Width: bars*(width+gap) + gap, Height: height + 60, Base: height + 20}
	for i, n := range counts {
		label := fmt.Sprintf("%.2f", (time.Duration(i) * step).Seconds())
		if i == bars-1 {
			label = "≥ " + label
		}
		b := bar{X: gap + i*(width+gap), Width: width, Height: (n*height + tallest - 1) / tallest, Count: n, Label: label}
		b.Y, b.Middle = h.Base-b.Height, b.X+width/2
		h.Bars = append(h.Bars, b)
	}
	return h
}
