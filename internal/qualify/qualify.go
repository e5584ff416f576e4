// Package qualify makes SQL for PostgreSQL independent of search_path. Otherwise anybody who
// may make an operator or a function in a schema of that path could have it called in place
// of the server's own, with the rights of the role that runs the statement.
//
// Statements are written without schemas, and Text puts pg_catalog before every operator,
// function, type and table of the server (pg_…). Text is no parser. It relies on how the
// statements are written:
//
//   - a function's name stands directly before its parenthesis; all other words before a
//     parenthesis (any, in, values, names of columns) have a blank in between;
//   - all qualified operators have the same precedence: "a <= b + c" needs parentheses, as
//     in "a <= (b + c)", and so does "x is null" after an operator;
//   - syntax that looks up an operator without naming it is not used: between, not in, like,
//     is distinct from, "case x when", join … using. Text rewrites nullif and in;
//   - "cast(x as y)" is for types that the grammar knows, "x::y" for all.
//
// A test checks that statements follow these rules: it compares how the server understands
// them under two paths (package postgres, path_test.go).
package qualify

import "strings"

// Theirs marks a part of a statement that users have written: Text does not change it.
func Theirs(part string) string {
	return "\x01" + strings.ReplaceAll(part, "\x02", "\x02\x02") + "\x02"
}

// Text is the statement with all names qualified.
func Text(statement string) string {
	w := &writer{tokens: tokensOf(statement)}
	w.writeUpTo(len(w.tokens))
	return w.out.String()
}

// constructs are the grammar's own words that stand directly before a parenthesis. They are
// no functions, and those that call a function call the server's.
var constructs = words("coalesce greatest least extract cast exists any all array row operator in values")

// grammarTypes are types that the grammar knows, whatever the path.
var grammarTypes = words("bigint int integer smallint boolean interval timestamp time numeric decimal real float double char character varchar bit")

func words(list string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		all[w] = true
	}
	return all
}

type writer struct {
	tokens   []string
	at       int
	out      strings.Builder
	previous string // the last token that is no blank
	// assignsNext says, for the statement and each open parenthesis, whether the next equals
	// sign assigns.
	assignsNext []bool
	inSetList   []bool
}

// writeUpTo writes the tokens before end.
func (w *writer) writeUpTo(end int) {
	w.assignsNext, w.inSetList = append(w.assignsNext, false), append(w.inSetList, false)
	for w.at < end {
		w.writeNext()
	}
	w.assignsNext, w.inSetList = w.assignsNext[:len(w.assignsNext)-1], w.inSetList[:len(w.inSetList)-1]
}

func (w *writer) writeNext() {
	t, depth := w.tokens[w.at], len(w.assignsNext)-1
	switch {
	case blank(t):
		w.out.WriteString(t)
		w.at++
		return
	case t[0] == '\x01':
		w.out.WriteString(strings.ReplaceAll(t[1:len(t)-1], "\x02\x02", "\x02"))
		w.previous = t
		w.at++
		return
	case t == "(":
		w.write(t)
		w.writeUpTo(w.closing(w.at - 1))
		return
	case t == "set", t == "," && w.inSetList[depth]:
		w.assignsNext[depth], w.inSetList[depth] = true, true
	case t == "from", t == "where", t == "returning":
		w.inSetList[depth] = false
	case t == "=" && w.assignsNext[depth]:
		w.assignsNext[depth] = false
	case t == "in" && w.nextWord(1) == "(":
		w.writeIn()
		return
	case t == "nullif" && w.following() == "(":
		w.writeNullif()
		return
	case t == "::":
		w.write(t)
		if name := w.tokens[w.at]; plain(name) && !grammarTypes[name] && w.following() != "." {
			w.out.WriteString("pg_catalog.")
		}
		return
	case plain(t) && w.following() == "(" && w.previous != "." && !constructs[t] && !w.unnestsSeveral(t):
		w.out.WriteString("pg_catalog.")
	case strings.HasPrefix(t, "pg_") && (w.previous == "from" || w.previous == "join") && w.following() != ".":
		w.out.WriteString("pg_catalog.")
	case operator(t) && !w.isNoOperator(t):
		t = "operator(pg_catalog." + t + ")"
		if w.at > 0 && !blank(w.tokens[w.at-1]) && w.previous != "(" {
			w.out.WriteString(" ")
		}
		w.out.WriteString(t)
		w.previous = t
		w.at++
		return
	}
	w.write(t)
}

func (w *writer) write(t string) {
	w.out.WriteString(t)
	w.previous = t
	w.at++
}

// following is the token after the current one; it may be a blank.
func (w *writer) following() string {
	if w.at+1 < len(w.tokens) {
		return w.tokens[w.at+1]
	}
	return ""
}

// nextWord is the first token that is no blank, from the n-th after the current one on.
func (w *writer) nextWord(n int) string {
	for _, t := range w.tokens[min(w.at+n, len(w.tokens)):] {
		if !blank(t) {
			return t
		}
	}
	return ""
}

// closing is the place where the parenthesis or bracket at a place is closed.
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

// unnestsSeveral reports whether name is unnest with several arrays: without a schema that
// is a construct of the grammar, with one it is no function.
func (w *writer) unnestsSeveral(name string) bool {
	if name != "unnest" {
		return false
	}
	end := w.closing(w.at + 1)
	return w.comma(w.at+1, end) < end
}

// isNoOperator finds signs of numbers and stars of select, which are no operators.
func (w *writer) isNoOperator(t string) bool {
	switch {
	case w.previous == ".", t == "=>": // a qualified operator, or a named argument
		return true
	case t == "*":
		return w.previous == "(" || w.previous == "select" || w.previous == "returning"
	case t == "-":
		next := w.following()
		begins := strings.HasPrefix(w.previous, "operator(") || strings.Contains(" ( , => = then else ", " "+w.previous+" ")
		return begins && next != "" && next[0] >= '0' && next[0] <= '9'
	}
	return false
}

// writeIn writes "x in (…)" as "x operator(pg_catalog.=) any (…)".
func (w *writer) writeIn() {
	w.at++
	for w.tokens[w.at] != "(" {
		w.at++
	}
	end := w.closing(w.at)
	list := w.nextWord(1) != "select"
	w.out.WriteString("operator(pg_catalog.=) any (")
	if list {
		w.out.WriteString("array[")
	}
	w.at++
	w.previous = "("
	w.writeUpTo(end)
	if list {
		w.out.WriteString("]")
	}
	w.write(")")
}

// writeNullif writes "nullif(x, y)" as a case with a qualified operator.
func (w *writer) writeNullif() {
	open := w.at + 1
	end := w.closing(open)
	comma := w.comma(open, end)
	part := func(from, to int) string {
		return Text(strings.TrimSpace(strings.Join(w.tokens[from:to], "")))
	}
	x, y := part(open+1, comma), part(comma+1, end)
	w.out.WriteString("case when (" + x + ") operator(pg_catalog.<>) (" + y + ") then " + x + " end")
	w.at, w.previous = end+1, "end"
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
