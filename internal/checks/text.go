package checks

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/internal/chars"
)

// Escaped writes unsafe characters except line ends and tabs as JSON does (\u009b), so that
// JSON stays JSON, and bytes that are no UTF-8 as \ufffd. It changes nothing else.
func Escaped(s string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || chars.Unsafe(r) && r != '\n' && r != '\t' }
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
