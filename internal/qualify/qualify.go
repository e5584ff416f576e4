// Package qualify makes SQL for PostgreSQL independent of search_path: whoever may make
// an operator or a function in a schema of that path could otherwise have it called in
// place of the server's own, with the rights of the role that runs the statement.
//
// Statements are written plainly, and Text puts pg_catalog before every operator,
// function, type and table of the server's (pg_…). Text is no parser. It relies on how the statements are written:
//
//   - a function's name stands directly before its parenthesis, everything else that
//     stands before one (any, in, values, names of columns) has a blank in between;
//   - a written-out operator has one precedence, whichever it is: where "a <= b + c" is
//     meant, parentheses say so, as in "a <= (b + c)", also around "x is null" after one;
//   - what looks up an operator without naming it is not used: between, not in, like, is
//     distinct from, "case x when", join … using. Text writes nullif and in differently;
//   - "cast(x as y)" is for types that the grammar knows, "x::y" for all.
//
// That a statement keeps to this is for a test to say, which compares what the server
// makes of it under two paths (package postgres, path_test.go).
package qualify

import (
	"regexp"
	"strings"
)

// Theirs marks a part of a statement that others have written: Text leaves it as it is.
func Theirs(part string) string {
	return "\x01" + strings.ReplaceAll(part, "\x02", "\x02\x02") + "\x02"
}

// Text is the statement with all names qualified.
func Text(statement string) string {
	w := &writer{tokens: tokens.FindAllString(statement, -1)}
	w.until(len(w.tokens))
	return w.out.String()
}

var tokens = regexp.MustCompile(`(?s)\s+|--[^\n]*|\x01(?:[^\x02]|\x02\x02)*\x02|\x00[a-z]+\x00` +
	`|[eE]'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|"(?:""|[^"])*"` +
	`|\$?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|[a-zA-Z_][a-zA-Z0-9_]*|::|=>|[-+*/<>=~!@#%^&|?]+|.`)

// constructs are no functions though they stand directly before a parenthesis: the
// grammar's own, of which those that call something call the server's.
var constructs = words("coalesce greatest least extract cast exists any all array row operator in values")

// keywords are types that the grammar knows, so that no path matters.
var keywords = words("bigint int integer smallint boolean interval timestamp time numeric decimal real float double char character varchar bit")

func words(list string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		all[w] = true
	}
	return all
}

type writer struct {
	tokens []string
	at     int
	out    strings.Builder
	before string // the token before, blanks aside
	// sets has, for each open parenthesis and the statement itself, whether the next
	// equals sign assigns.
	sets  []bool
	inSet []bool
}

// until writes the tokens up to end.
func (w *writer) until(end int) {
	w.sets, w.inSet = append(w.sets, false), append(w.inSet, false)
	for w.at < end {
		w.next()
	}
	w.sets, w.inSet = w.sets[:len(w.sets)-1], w.inSet[:len(w.inSet)-1]
}

func (w *writer) next() {
	t, depth := w.tokens[w.at], len(w.sets)-1
	switch {
	case blank(t):
		w.out.WriteString(t)
		w.at++
		return
	case t[0] == '\x01':
		w.out.WriteString(strings.ReplaceAll(t[1:len(t)-1], "\x02\x02", "\x02"))
		w.before = t
		w.at++
		return
	case t == "(":
		w.put(t)
		w.until(w.closing(w.at - 1))
		return
	case t == "set", t == "," && w.inSet[depth]:
		w.sets[depth], w.inSet[depth] = true, true
	case t == "from", t == "where", t == "returning":
		w.inSet[depth] = false
	case t == "=" && w.sets[depth]:
		w.sets[depth] = false
	case t == "in" && w.peek(1) == "(":
		w.in()
		return
	case t == "nullif" && w.after() == "(":
		w.nullif()
		return
	case t == "::":
		w.put(t)
		if name := w.tokens[w.at]; plain(name) && !keywords[name] && w.after() != "." {
			w.out.WriteString("pg_catalog.")
		}
		return
	case plain(t) && w.after() == "(" && w.before != "." && !constructs[t] && !w.several(t):
		w.out.WriteString("pg_catalog.")
	case strings.HasPrefix(t, "pg_") && (w.before == "from" || w.before == "join") && w.after() != ".":
		w.out.WriteString("pg_catalog.")
	case operator(t) && !w.noOperator(t):
		t = "operator(pg_catalog." + t + ")"
		if w.at > 0 && !blank(w.tokens[w.at-1]) && w.before != "(" {
			w.out.WriteString(" ")
		}
		w.out.WriteString(t)
		w.before = t
		w.at++
		return
	}
	w.put(t)
}

func (w *writer) put(t string) {
	w.out.WriteString(t)
	w.before = t
	w.at++
}

// after is the token after the current one, be it a blank.
func (w *writer) after() string {
	if w.at+1 < len(w.tokens) {
		return w.tokens[w.at+1]
	}
	return ""
}

// peek is the first token after the next n that is no blank.
func (w *writer) peek(n int) string {
	for _, t := range w.tokens[min(w.at+n, len(w.tokens)):] {
		if !blank(t) {
			return t
		}
	}
	return ""
}

// closing is where the parenthesis or bracket at a place is closed.
func (w *writer) closing(at int) int {
	open := 0
	for i := at; i < len(w.tokens); i++ {
		switch w.tokens[i] {
		case "(", "[":
			open++
		case ")", "]":
			if open--; open == 0 {
				return i
			}
		}
	}
	return len(w.tokens)
}

// comma is the place of the first comma between the parentheses, or end if there is none.
func (w *writer) comma(open, end int) int {
	for i := open + 1; i < end; i++ {
		switch w.tokens[i] {
		case "(", "[":
			i = w.closing(i)
		case ",":
			return i
		}
	}
	return end
}

// several: an unnest of several arrays is a construct of the grammar as long as nothing
// stands before its name.
func (w *writer) several(name string) bool {
	if name != "unnest" {
		return false
	}
	end := w.closing(w.at + 1)
	return w.comma(w.at+1, end) < end
}

// noOperator tells signs and stars from operators.
func (w *writer) noOperator(t string) bool {
	switch {
	case w.before == ".", t == "=>": // written out, or of an argument
		return true
	case t == "*":
		return w.before == "(" || w.before == "select" || w.before == "returning"
	case t == "-":
		next := w.after()
		begins := strings.HasPrefix(w.before, "operator(") || strings.Contains(" ( , => = then else ", " "+w.before+" ")
		return begins && next != "" && next[0] >= '0' && next[0] <= '9'
	}
	return false
}

// in writes "x in (…)" as a comparison whose operator has a name.
func (w *writer) in() {
	w.at++
	for w.tokens[w.at] != "(" {
		w.at++
	}
	end := w.closing(w.at)
	list := w.peek(1) != "select"
	w.out.WriteString("operator(pg_catalog.=) any (")
	if list {
		w.out.WriteString("array[")
	}
	w.at++
	w.before = "("
	w.until(end)
	if list {
		w.out.WriteString("]")
	}
	w.put(")")
}

// nullif writes "nullif(x, y)" likewise.
func (w *writer) nullif() {
	open := w.at + 1
	end := w.closing(open)
	comma := w.comma(open, end)
	part := func(from, to int) string {
		return Text(strings.TrimSpace(strings.Join(w.tokens[from:to], "")))
	}
	x, y := part(open+1, comma), part(comma+1, end)
	w.out.WriteString("case when (" + x + ") operator(pg_catalog.<>) (" + y + ") then " + x + " end")
	w.at, w.before = end+1, "end"
}

func blank(t string) bool {
	return strings.TrimSpace(t) == "" || strings.HasPrefix(t, "--")
}

func plain(t string) bool {
	c := t[0]
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func operator(t string) bool {
	return strings.ContainsRune("-+*/<>=~!@#%^&|?", rune(t[0])) && !strings.HasPrefix(t, "--")
}
