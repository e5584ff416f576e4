// Package failures groups jobs that died alike: of the same queue and kind, with errors that differ
// only in numbers, ids, quoted texts and the like.
package failures

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/chars"
)

// Group are jobs of one queue and kind whose last errors have the same fingerprint.
type Group struct {
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind"`
	Fingerprint string    `json:"fingerprint"`
	Part        string    `json:"part,omitempty"` // the longest text that all errors of the group have; for admin.Filter.Error
	Count       int       `json:"count"`
	First       time.Time `json:"first"` // when the first and the last job of the group died
	Last        time.Time `json:"last"`
	Example     string    `json:"example"`          // the error of the last
	IDs         []int64   `json:"ids"`              // up to 10 jobs of the group that died last
	Counts      []int     `json:"counts,omitempty"` // how many died in each span of Spans
	Read        int       `json:"read"`             // how many dead jobs of the queue were read, and how many there are
	Dead        int64     `json:"dead"`
}

// Some reports whether there may be more jobs of the group than were read.
func (g *Group) Some() bool { return int64(g.Read) < g.Dead }

// Spans are N spans of time, of Width each, from From on.
type Spans struct {
	From  time.Time
	Width time.Duration
	N     int
}

// maxIDs is how many ids a group has.
const maxIDs = 10

// Of groups failures, the group of the newest first. The failures come newest first, as
// Admin.Failures of package admin lists them.
func Of(list []admin.Failure, spans Spans) []*Group {
	type key struct{ queue, kind, fingerprint string }
	byKey := map[key]*Group{}
	var groups []*Group
	for _, f := range list {
		k := key{f.Queue, f.Kind, Fingerprint(f.Error)}
		g := byKey[k]
		if g == nil {
			g = &Group{Queue: f.Queue, Kind: f.Kind, Fingerprint: k.fingerprint, Part: part(k.fingerprint), Last: f.At, Example: f.Error}
			if spans.N > 0 {
				g.Counts = make([]int, spans.N)
			}
			byKey[k] = g
			groups = append(groups, g)
		}
		g.First = f.At
		if g.Count++; len(g.IDs) < maxIDs {
			g.IDs = append(g.IDs, f.ID)
		}
		if f.At.Before(spans.From) || spans.Width <= 0 {
			continue
		}
		if i := int(f.At.Sub(spans.From) / spans.Width); i < len(g.Counts) {
			g.Counts[i]++
		}
	}
	slices.SortStableFunc(groups, func(a, b *Group) int {
		return cmp.Or(b.Last.Compare(a.Last), b.Count-a.Count)
	})
	return groups
}

// gap stands in a fingerprint for what differs.
const gap = "…"

// A longer fingerprint keeps its begin and its end.
const (
	mostHead = 140 // runes
	mostTail = 60
)

// Fingerprint is an error's text without what differs from one failure to the next: numbers other than
// codes of protocols, ids, dates, addresses, quoted texts. Each stretch of the text between two gaps is a part of the error.
func Fingerprint(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	var out []rune
	hide := func() {
		if !endsWithGap(out) {
			out = append(out, []rune(gap)...)
		}
	}
	from, to, code := 0, 0, false // the last word, and whether it was a code
	for i := 0; i < len(runes); {
		before := rune(0)
		if i > 0 {
			before = runes[i-1]
		}
		if n := quoted(runes[i:], before); n > 0 {
			out = append(out, runes[i])
			hide()
			out = append(out, runes[i+n-1])
			i += n
			continue
		}
		if !wordRune(runes[i]) {
			if r := runes[i]; r == '\uFFFD' {
				hide()
			} else {
				out = append(out, r)
			}
			i++
			continue
		}
		n := wordLen(runes[i:])
		word := runes[i : i+n]
		code = isCode(word, placeAt(runes, i, from, to, code))
		switch {
		case code:
			out = append(out, word...)
		case opaque(word):
			hide()
		default:
			out = appendWithoutNumbers(out, word)
		}
		from, to = i, i+n
		i += n
	}
	if len(out) > mostHead+mostTail {
		out = slices.Concat(out[:mostHead], []rune(gap), out[len(out)-mostTail:])
	}
	return strings.TrimSpace(string(out))
}

func endsWithGap(out []rune) bool { return len(out) > 0 && out[len(out)-1] == []rune(gap)[0] }

// mostQuoted is how long a quoted text may be. What looks like a longer one is an apostrophe.
const mostQuoted = 300

// closingQuotes are the quotes that end a text, by those that begin it.
var closingQuotes = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '“': '”', '‘': '’', '«': '»'}

// quoted is the length of a quoted text with its quotes at the start of a text; 0: there is none.
func quoted(text []rune, before rune) int {
	closing, ok := closingQuotes[text[0]]
	if !ok || unicode.IsLetter(before) || unicode.IsDigit(before) {
		return 0
	}
	for i := 1; i < min(len(text), mostQuoted); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '\n':
			return 0
		case text[i] == closing && (i+1 == len(text) || !unicode.IsLetter(text[i+1]) && !unicode.IsDigit(text[i+1])):
			return i + 1
		}
	}
	return 0
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// wordLen is the length of the word at the start of a text. A word goes on over one character that
// joins parts of dates, addresses, paths and names; a colon may come twice, in addresses.
func wordLen(text []rune) int {
	n := 0
	for n < len(text) {
		switch {
		case wordRune(text[n]):
			n++
		case n+1 < len(text) && strings.ContainsRune("-.:/@+%~", text[n]) && wordRune(text[n+1]):
			n += 2
		case n+2 < len(text) && text[n] == ':' && text[n+1] == ':' && wordRune(text[n+2]):
			n += 3
		default:
			return n
		}
	}
	return n
}

// opaque reports whether a word is one for a single thing: an id, an address, a date.
func opaque(word []rune) bool {
	const least = 16 // letters and digits of an id without a form of its own
	letters, digits, hex, colons, dashes, dots, at := 0, 0, 0, 0, 0, 0, false
	for _, r := range word {
		switch {
		case unicode.IsDigit(r):
			digits++
			hex++
		case unicode.IsLetter(r):
			letters++
			if r < unicode.MaxASCII && strings.ContainsRune("abcdefABCDEF", r) {
				hex++
			}
		case r == ':':
			colons++
		case r == '-':
			dashes++
		case r == '.':
			dots++
		case r == '@':
			at = true
		}
	}
	plain := letters+digits == len(word) // no joining characters
	switch {
	case at && dots > 0: // an e-mail address
		return true
	case letters == 0 && digits > 0: // a number, a date, an IPv4 address with or without a port
		return true
	case digits == 0:
		return false
	case letters == 1 && word[0] == '0' && (word[min(1, len(word)-1)] == 'x' || word[min(1, len(word)-1)] == 'X'):
		return true
	case hex+colons == len(word) && colons >= 2: // an IPv6 address
		return true
	case hex+dashes == len(word) && hex >= 8: // a hexadecimal id, a UUID
		return true
	case len(word) > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X') && hex >= len(word)-1:
		return true
	case dateTime(word):
		return true
	}
	return plain && letters+digits >= least && digits >= 2 || dashes == 0 && dots == 0 && plain && duration(word)
}

// dateTime reports whether a word is a date and time such as 2026-12-31T23:59:00.5Z.
func dateTime(word []rune) bool {
	if len(word) < len("2026-12-31T23:59") || word[10] != 'T' && word[10] != 't' {
		return false
	}
	for i, r := range word {
		if !unicode.IsDigit(r) && !strings.ContainsRune("-:.+", r) && i != 10 && !(i == len(word)-1 && (r == 'Z' || r == 'z')) {
			return false
		}
	}
	return true
}

// duration reports whether a word is one, such as 300ms or 1m30s.
func duration(word []rune) bool {
	_, err := time.ParseDuration(string(word))
	return err == nil
}

// appendWithoutNumbers appends a word with a gap for each of its numbers.
func appendWithoutNumbers(out, word []rune) []rune {
	for i, r := range word {
		switch {
		case !unicode.IsDigit(r):
			out = append(out, r)
		case i == 0 && !endsWithGap(out) || i > 0 && !unicode.IsDigit(word[i-1]):
			out = append(out, []rune(gap)...)
		}
	}
	return out
}

// part is the longest stretch of a fingerprint that every error of its group has and that is a
// good text to look for: of one line, without characters that cannot be typed.
func part(fingerprint string) string {
	longest := ""
	for piece := range strings.FieldsFuncSeq(fingerprint, func(r rune) bool {
		return r == []rune(gap)[0] || unicode.IsControl(r) || chars.Unsafe(r)
	}) {
		if piece = strings.Trim(piece, " :;,.=-()[]{}\"'"); len(piece) > len(longest) {
			longest = piece
		}
	}
	if len(longest) < leastPart {
		return ""
	}
	return longest
}

// leastPart is the length of a text that is worth looking for, in bytes.
const leastPart = 4
