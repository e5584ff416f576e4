package qualify

import (
	"strings"
	"unicode/utf8"
)

// tokensOf splits a statement. Each byte is in one of the tokens: blanks, comments, what
// [Theirs] has marked, the writer's own marks, texts, names in quotes, numbers and parameters, words,
// operators, and single characters.
//
// A regular expression would say the same in three lines (tokens_test.go), but takes 2 ms for
// the longest statement, for which a program that runs for a moment would wait.
func tokensOf(s string) []string {
	list := make([]string, 0, len(s)/3)
	for len(s) > 0 {
		n := tokenSize(s)
		list = append(list, s[:n])
		s = s[n:]
	}
	return list
}

func tokenSize(s string) int {
	n := 0
	switch c := s[0]; {
	case isSpace(c):
		return span(s, isSpace)
	case strings.HasPrefix(s, "--"):
		if n = strings.IndexByte(s, '\n'); n < 0 {
			n = len(s)
		}
	case c == '\x01':
		n = quotedSize(s, '\x02', 0)
	case c == '\x00':
		if at := 1 + span(s[1:], isLower); at > 1 && at < len(s) && s[at] == '\x00' {
			n = at + 1
		}
	case c == '\'', c == '"':
		n = quotedSize(s, c, 0)
	case c == '$', isDigit(c):
		n = numberSize(s)
	case strings.HasPrefix(s, "::"), strings.HasPrefix(s, "=>"):
		n = 2
	case isOperator(c):
		return span(s, isOperator)
	case (c == 'e' || c == 'E') && strings.HasPrefix(s[1:], "'"):
		if text := quotedSize(s[1:], '\'', '\\'); text > 0 {
			return 1 + text
		}
		return 1
	case isLetter(c):
		return span(s, func(c byte) bool { return isLetter(c) || isDigit(c) })
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

// span is how many bytes at the beginning of s are of a kind.
func span(s string, is func(byte) bool) int {
	for i := range len(s) {
		if !is(s[i]) {
			return i
		}
	}
	return len(s)
}

// quotedSize is the size of a part that ends with end, which stands twice within it; escape,
// if there is one, takes the next character along. Of a part that does not end it is the size up
// to the last end that stands twice, or 0.
func quotedSize(s string, end, escape byte) (size int) {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case escape != 0 && c == escape:
			if i++; i == len(s) {
				return size
			}
		case c != end:
		case i+1 < len(s) && s[i+1] == end:
			i++
			size = i
		default:
			return i + 1
		}
	}
	return size
}

// numberSize is the size of a number or of a parameter, such as 12, 1.5e-3 and $2.
func numberSize(s string) int {
	n := 0
	if s[0] == '$' {
		n = 1
	}
	digits := span(s[n:], isDigit)
	if digits == 0 {
		return 0
	}
	n += digits
	if n < len(s) && s[n] == '.' {
		if more := span(s[n+1:], isDigit); more > 0 {
			n += 1 + more
		}
	}
	if n < len(s) && s[n] == 'e' {
		sign := 0
		if n+1 < len(s) && (s[n+1] == '-' || s[n+1] == '+') {
			sign = 1
		}
		if more := span(s[n+1+sign:], isDigit); more > 0 {
			n += 1 + sign + more
		}
	}
	return n
}

func isSpace(c byte) bool    { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool   { return isLower(c|0x20) && c < 0x80 || c == '_' }
func isOperator(c byte) bool { return strings.IndexByte("-+*/<>=~!@#%^&|?", c) >= 0 }
