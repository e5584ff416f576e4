package term

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// columns matches a line of two columns up to its second one, as of flags and commands.
var columns = regexp.MustCompile(`^ +\S.*?  +`)

// Wrapped breaks lines that are longer than width. The lines of a paragraph, or of a second column, are joined
// first; what is left of a line begins below its last column.
func Wrapped(text string, width int) string {
	var done []string
	lines := strings.Split(text, "\n")
	for len(lines) > 0 {
		n, indent := paragraph(lines, width)
		part := lines[:n]
		lines = lines[n:]
		if slices.ContainsFunc(part, func(line string) bool { return utf8.RuneCountInString(line) > width }) {
			line := part[0]
			for _, more := range part[1:] {
				line += " " + strings.TrimLeft(more, " ")
			}
			part = []string{brokenLine(line, width, indent)}
		}
		done = append(done, part...)
	}
	return strings.Join(done, "\n")
}

// paragraph is how many lines may be joined with the first one, and where what is left of it begins.
func paragraph(lines []string, width int) (n, indent int) {
	begin := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	margin := begin(lines[0])
	if indent = margin; margin > 0 {
		if at := len(columns.FindString(lines[0])); at > 0 && at <= width*2/3 {
			indent = at
		}
	}
	n = 1
	if margin > 0 && indent == margin || lines[0] == "" { // a line by itself, such as a command
		return n, indent
	}
	for n < len(lines) && lines[n] != "" && begin(lines[n]) == indent {
		n++
	}
	return n, indent
}

// brokenLine breaks a line between words. A word that is longer than width stays whole.
func brokenLine(line string, width, indent int) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > width {
		head := string([]rune(line)[:width+1])
		at := strings.LastIndexByte(head, ' ')
		if at <= indent {
			if at = strings.IndexByte(line[min(indent, len(line)):], ' '); at < 0 {
				break
			}
			at += indent
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}
