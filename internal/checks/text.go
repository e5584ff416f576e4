package checks

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unsafe reports whether a character can change what stands around it on a terminal or a
// page: control characters, ASCII's and those of U+0080 to U+009F, which begin sequences
// too; those that turn the direction of text; and the separators of lines and paragraphs.
func Unsafe(r rune) bool {
	switch {
	case unicode.IsControl(r):
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f: // marks of direction
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // separators, embeddings and isolates
		return true
	}
	return false
}

// Escaped writes unsafe characters except line ends and tabs as JSON does (\u009b), so that
// JSON stays JSON, and bytes that are no UTF-8 as \ufffd. It changes nothing else.
func Escaped(s string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || Unsafe(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !bad(r) || r == utf8.RuneError && strings.HasPrefix(s[i:], "\ufffd"):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
