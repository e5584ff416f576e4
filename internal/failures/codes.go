package failures

import (
	"slices"
	"strings"
	"unicode"
)

// The short numbers by which protocols say what is wrong tell errors apart, so a fingerprint keeps them: of HTTP and
// SMTP (404, 550 5.1.1), of SQL (SQLSTATE 23505), of systems and processes (errno 111, exit status 1). Only the words
// and marks around a number tell it from an id.

// codeWords come before codes of up to five digits.
var codeWords = []string{"code", "errno", "error", "exit", "http", "reply", "response", "signal", "smtp", "sqlstate", "status"}

// replyWords come before a reply of a server, from 400 to 599.
var replyWords = []string{"answered", "got", "received", "responded", "returned", "returns", "with"}

// place is what stands before a word.
type place struct {
	word    string // the word before it, in small letters
	code    bool   // the word before it was a code, or ended with one
	between string
	start   bool // it begins the text, a line, or what follows a colon
}

// placeAt describes what stands before the word at i. The word before it is text[from:to].
func placeAt(text []rune, i, from, to int, code bool) place {
	const most = 3 // marks between a word and its code
	p := place{start: i == 0 || text[i-1] == '\n' || i > 1 && text[i-1] == ' ' && text[i-2] == ':'}
	if to > from && i-to <= most {
		p.word, p.code, p.between = strings.ToLower(string(text[from:to])), code, string(text[to:i])
	}
	return p
}

// isCode reports whether a word is a code of a protocol, or one with its name, such as code:404 and HTTP/1.1.
func isCode(word []rune, before place) bool {
	text := string(word)
	if name, code, found := strings.Cut(text, ":"); found && slices.Contains(codeWords, strings.ToLower(name)) {
		return digits(code, 5)
	}
	version, isHTTP := strings.CutPrefix(text, "HTTP/")
	first, rest, joined := strings.Cut(text, "-") // all lines of a reply but the last have a dash
	return isHTTP && len(version) <= 3 ||
		(before.word == "sqlstate" || before.code && before.between == " (") && sqlState(text) ||
		(strings.HasPrefix(before.word, "http/") || slices.Contains(codeWords, before.word)) && digits(text, 5) ||
		slices.Contains(replyWords, before.word) && before.between == " " && reply(text) ||
		before.code && enhanced(text) ||
		before.start && reply(first) && (!joined || enhanced(rest) || !strings.ContainsFunc(rest, unicode.IsDigit))
}

// digits reports whether a text is a number of up to so many digits.
func digits(text string, most int) bool {
	return text != "" && len(text) <= most && strings.Trim(text, "0123456789") == ""
}

// reply reports whether a text is a reply of a server that says that something went wrong, such as 404 or 550.
func reply(text string) bool {
	return len(text) == 3 && digits(text, 3) && (text[0] == '4' || text[0] == '5')
}

// enhanced reports whether a text is an enhanced status code of mail, such as 5.1.1.
func enhanced(text string) bool {
	parts := strings.Split(text, ".")
	return len(parts) == 3 && (parts[0] == "4" || parts[0] == "5") && digits(parts[1], 3) && digits(parts[2], 3)
}

// sqlState reports whether a text looks like an SQLSTATE: five digits and capital letters.
func sqlState(text string) bool {
	return len(text) == 5 && strings.Trim(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
