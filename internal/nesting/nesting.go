// Package nesting finds JSON that is nested too deep.
package nesting

import "bytes"

// Over reports whether JSON has more than most objects and arrays inside each other. It reads
// only texts with more than most brackets byte by byte: most jobs have fewer.
func Over(text []byte, most int) bool {
	if len(text) <= 2*most || bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text) && depth <= most; i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
	}
	return depth > most
}
