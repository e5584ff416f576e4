package page

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/words"
)

// functions are what templates call.
var functions = template.FuncMap{
	"count":    count,
	"rate":     rate,
	"roughly":  roughly,
	"ago":      ago,
	"stamp":    stamp,
	"exact":    exact,
	"clock":    func(t time.Time) string { return t.UTC().Format("15:04 UTC") },
	"line":     oneLine,
	"counted":  func(j *dibs.RawJob) int { return j.Attempt - j.Excused },
	"text":     checks.Escaped,
	"json":     func(raw []byte) string { return words.Indented(raw, "") },
	"seg":      segment,
	"clip":     words.Clip,
	"percent":  percent,
	"plural":   plural,
	"isZero":   func(t time.Time) bool { return t.IsZero() },
	"final":    func(s dibs.State) bool { return s.Final() },
	"dict":     dict,
	"last":     func(list []dibs.AttemptError) int { return len(list) - 1 },
	"duration": duration,
}

// Browsers resolve "." and ".." in a path as the way up, however they are written. So segment puts a ~ before such
// names, and before names that already look like that.
var dots = regexp.MustCompile(`^~*\.\.?$`)

// segment writes a name as a part of a path.
func segment(name string) string {
	if dots.MatchString(name) {
		name = "~" + name
	}
	return url.PathEscape(name)
}

// named is the inverse of segment.
func named(part string) string {
	if dots.MatchString(part) {
		return strings.TrimPrefix(part, "~")
	}
	return part
}

// dict passes several values to a template by their names.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// count writes a number with thin groups of thousands.
func count(n any) string {
	s := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// rate writes a number of jobs a minute.
func rate(f float64) string {
	if f > 0 && f < 10 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return count(int64(f + 0.5))
}

// roughly writes a duration in one unit, with two or three digits.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + roughly(-max(d, -math.MaxInt64))
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// duration is roughly for a duration that may be unknown.
func duration(known bool, d time.Duration) string {
	if !known {
		return "–"
	}
	return roughly(d)
}

// ago says how long a time is past, or still to come.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "–"
	case d < 0:
		return "in " + roughly(-d)
	}
	return roughly(d) + " ago"
}

// stamp writes a time for machines, exact writes it for people.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// oneLine makes text of unknown origin fit into one line, with one direction of writing.
func oneLine(s string) string {
	return checks.Escaped(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ", "\r", " ").Replace(s))
}

func percent(part, of int64) string {
	if of <= 0 {
		return "0"
	}
	return strconv.FormatFloat(min(100, max(0, 100*float64(part)/float64(of))), 'f', 1, 64)
}

// plural writes "1 job" or "5 jobs".
func plural(n any, one string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}
