// Package words puts counts, times and foreign texts into words.
package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/checks"
)

const day = 24 * time.Hour

// Count formats n with a comma before every three digits.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Plural formats "1 job" or "5 jobs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(int64(n)) + " " + noun + "s"
}

// Verb formats "1 job waits" or "5 jobs wait".
func Verb(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + more
}

// Roughly formats d with two or three digits.
func Roughly(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Roughly(-max(d, -math.MaxInt64))
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// Since formats how long ago t was, or in what time it is. The clocks of this machine
// and of the database may differ a little.
func Since(now, t time.Time) string {
	switch d := max(now.Sub(t), -math.MaxInt64); {
	case d < -time.Second:
		return "in " + Roughly(-d)
	case d < time.Second:
		return "now"
	default:
		return Roughly(d) + " ago"
	}
}

// Indented is JSON as people read it, with a prefix before each line but the first. Indentation grows with the depth of
// a text times its length: a text that would become more than four times as long, beyond 64 KiB, stays in one line, as
// does one that is no JSON.
func Indented(raw []byte, prefix string) string {
	var b bytes.Buffer
	if most := 4*len(raw) + 64<<10; indentedSize(raw, len(prefix), most) > most || json.Indent(&b, raw, prefix, "  ") != nil {
		return checks.Escaped(string(raw))
	}
	return checks.Escaped(b.String())
}

// indentedSize is about how long JSON becomes by indentation; beyond most it stops counting.
func indentedSize(raw []byte, prefix, most int) int {
	size, depth, text := len(raw), 0, false
	for i := 0; i < len(raw) && size <= most; i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			size += 1 + prefix + 2*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + prefix + 2*depth
		case c == ',':
			size += 1 + prefix + 2*depth
		}
	}
	return size
}

// Clip shortens a text to so many characters.
func Clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// OneLine returns the first line of s that is not blank, printable.
func OneLine(s string) string {
	s = strings.TrimSpace(s)
	s, _, _ = strings.Cut(s, "\n")
	return Printable(s)
}

// Printable makes foreign text fit for one line: it escapes colours too, and replaces line
// ends and tabs with blanks.
func Printable(s string) string {
	return checks.Escaped(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(s))
}

// Command is a command with one argument and flags, for printing. The program does not take the
// argument for a flag, even if it begins with a dash. The flags are words for a shell already.
func Command(command, argument string, flags ...string) string {
	list := []string{command}
	if strings.HasPrefix(argument, "-") {
		list = append(append(list, flags...), "--", ShellWord(argument))
	} else {
		list = append(append(list, ShellWord(argument)), flags...)
	}
	return strings.Join(list, " ")
}

// StartWorker is the command that works a queue, for printing. 'dibs work' takes what follows the
// first -- for its program, and the end of --queue for a weight if it looks like one.
func StartWorker(queue string) string {
	if strings.HasPrefix(queue, "-") {
		return "dibs work --queue=" + ShellWord(queue+":1") + " -- PROGRAM"
	}
	return "dibs work " + ShellWord(queue) + " -- PROGRAM"
}

// ShellWord quotes a word for a shell, for printing. It does not keep a program from taking the
// word for a flag: see Command.
func ShellWord(s string) string {
	s = Printable(s)
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// MostIDs is how many jobs are named by their ids.
const MostIDs = 50

// Jobs names n jobs that were changed. ids are all of them, MostIDs at least, or none if they are not known.
func Jobs(ids []int64, n int) string {
	if len(ids) == 0 {
		return "jobs"
	}
	texts := make([]string, min(len(ids), MostIDs))
	for i := range texts {
		texts[i] = fmt.Sprint(ids[i])
	}
	if more := n - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	if n == 1 {
		return "job " + texts[0]
	}
	return "jobs " + strings.Join(texts, ", ")
}
