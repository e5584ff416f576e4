// Package chars tells characters that names may have from those that may deceive.
package chars

import "unicode"

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
