package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// scanner walks over a text that is known to be valid JSON. It copies and decodes nothing, so what a client sends
// can be counted before it takes memory.
type scanner struct {
	text []byte
	at   int
}

// next passes over what stands between values, and returns the first byte of what follows; 0: nothing follows.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// quoted passes over a string, and returns it with its quotes.
func (s *scanner) quoted() []byte {
	begin := s.at
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.text))
	return s.text[begin:s.at]
}

// plain passes over a number, or one of true, false and null.
func (s *scanner) plain() {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return
		}
	}
}

// value passes over one value, however deep it is.
func (s *scanner) value() {
	for depth := 0; ; {
		switch s.next() {
		case 0:
			return
		case '"':
			s.quoted()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.plain()
		}
		if depth <= 0 {
			return
		}
	}
}

// items passes over a list, and returns how many values it has.
func (s *scanner) items() (n int) {
	s.at++
	for ; s.next() != ']' && s.at < len(s.text); n++ {
		s.value()
	}
	s.at++
	return n
}

// unquoted is what a string of JSON says.
func unquoted(raw []byte) (text string) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}
