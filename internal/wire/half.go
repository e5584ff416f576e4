package wire

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// HalfAt is where a text of JSON has half of a surrogate pair in an escape, such as \ud800 alone; -1: nowhere.
func HalfAt(text []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '\\')
		if i < 0 {
			return -1
		}
		at += i
		rest := text[at:]
		unit, isUnit := codeUnit(rest)
		low, _ := codeUnit(rest[min(6, len(rest)):])
		switch {
		case !isUnit:
			at += min(2, len(rest))
		case !utf16.IsSurrogate(unit):
			at += 6
		case utf16.DecodeRune(unit, low) == utf8.RuneError:
			return at
		default:
			at += 12
		}
	}
}

// Whole is a text of JSON with U+FFFD in place of each half of a surrogate pair: jq and other programs refuse
// a text that has one. It may change the text that it got.
func Whole(text []byte) []byte {
	for rest := text; ; {
		at := HalfAt(rest)
		if at < 0 {
			return text
		}
		copy(rest[at:], `\ufffd`)
		rest = rest[at+6:]
	}
}

// codeUnit is the number of the escape, such as \u0041, with which a text of JSON begins.
func codeUnit(text []byte) (unit rune, is bool) {
	if len(text) < 6 || text[1] != 'u' || text[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
