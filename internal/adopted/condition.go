package adopted

import (
	"fmt"
	"slices"
	"strings"
)

// Condition is one boolean SQL expression of a mapping.
type Condition struct {
	Field, text string
	tokens      []token
}

// token is a word, a "quoted" name, a 'string', a number or an operator.
type token struct {
	kind    tokenKind
	text    string // text of the token, without quotes
	at, end int    // first byte of the token in the condition, and the byte after it
}

type tokenKind int

const (
	word tokenKind = iota
	quotedName
	quotedText
	sign
)

// conditions lists the mapping's conditions. A condition is put into statements between
// parentheses, so one that could close them is an error, which names its field.
func (p *Plan) conditions() ([]*Condition, error) {
	var all []*Condition
	for _, c := range []Condition{
		{Field: "where", text: p.Mapping.Where},
		{Field: "unfinished", text: p.Mapping.Unfinished},
		{Field: "available", text: p.Mapping.Available},
		{Field: "running", text: p.Mapping.Running},
	} {
		if c.text == "" {
			continue
		}
		var err error
		if c.tokens, err = p.Dialect.lex(c.text); err == nil {
			err = p.checkNames(&c)
		}
		if err != nil {
			return nil, Invalid(c.Field, "%v: %.200q", err, c.text)
		}
		all = append(all, &c)
	}
	return all, nil
}

// setTexts sets the conditions as statements contain them: their names are not qualified.
func (p *Plan) setTexts() {
	m := p.Mapping
	for to, text := range map[*string]string{&p.Where: m.Where, &p.Unfinished: m.Unfinished, &p.Available: m.Available, &p.Running: m.Running} {
		if text != "" {
			*to = p.Dialect.theirs(text)
		}
	}
}

// checkNames refuses quoted names of no column: SQLite takes them for strings.
func (p *Plan) checkNames(c *Condition) error {
	if !p.Dialect.Lenient || c.Has("select") {
		return nil
	}
	for i, t := range c.tokens {
		if t.kind != quotedName || i > 0 && c.tokens[i-1].text == "." {
			continue
		}
		known := slices.ContainsFunc(p.On.Columns, func(col Column) bool { return strings.EqualFold(col.Name, t.text) })
		follows := i+1 < len(c.tokens) && c.tokens[i+1].text == "."
		if !known && !follows {
			return fmt.Errorf("%q is no column of the table (strings are written with single quotes)", t.text)
		}
	}
	return nil
}

// lex splits a condition into tokens. It refuses text that could close the parentheses around
// the condition, hide part of it, or be read in two ways.
func lex(text string, postgres bool) ([]token, error) {
	return (&lexer{rest: text, length: len(text), postgres: postgres}).all(text)
}

func (d Dialect) lex(text string) ([]token, error) {
	return (&lexer{rest: text, length: len(text), postgres: d.escapes, maria: d.backticks}).all(text)
}

func (l *lexer) all(text string) ([]token, error) {
	if strings.Contains(text, "\x00") {
		return nil, fmt.Errorf("must not contain control characters")
	}
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\r\n")
		if l.rest == "" {
			break
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(l.tokens) == 0:
		return nil, fmt.Errorf("is empty")
	case len(l.open) > 0:
		return nil, fmt.Errorf("%q is not closed", l.open[len(l.open)-1])
	}
	return l.tokens, nil
}

type lexer struct {
	rest     string
	length   int // length of the whole condition
	postgres bool
	maria    bool
	tokens   []token
	open     []byte // parentheses and brackets that are not closed yet
}

func (l *lexer) next() error {
	s := l.rest
	c := s[0]
	switch {
	case c < ' ' || c == 0x7f:
		return fmt.Errorf("must not contain control characters")
	case strings.HasPrefix(s, "--") || strings.HasPrefix(s, "/*"):
		return fmt.Errorf("must not contain comments")
	case c == ';':
		return fmt.Errorf("must be one expression, without a semicolon")
	case c == '\'' && len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind == quotedText:
		return fmt.Errorf("has two strings in a row, which databases read in different ways")
	case c == '\'':
		return l.quoted('\'', quotedText, false)
	case l.postgres && (strings.HasPrefix(s, "e'") || strings.HasPrefix(s, "E'")):
		l.rest = s[1:]
		return l.quoted('\'', quotedText, true)
	case c == '"' && l.maria:
		return fmt.Errorf("has a double quote, whose meaning depends on sql_mode: write names in backticks, and strings in single quotes")
	case c == '"':
		return l.quoted('"', quotedName, false)
	case !l.postgres && c == '`':
		return l.quoted('`', quotedName, false)
	case !l.postgres && c == '[':
		return l.quoted(']', quotedName, false)
	case c == '(' || c == '[':
		l.open = append(l.open, c)
		l.take(sign, 1)
	case c == ')' || c == ']':
		if len(l.open) == 0 || (l.open[len(l.open)-1] == '(') != (c == ')') {
			return fmt.Errorf("has a %q without an opening one", c)
		}
		l.open = l.open[:len(l.open)-1]
		l.take(sign, 1)
	case inWord(c):
		n := 1
		for n < len(s) && (inWord(s[n]) || s[n] == '$') {
			n++
		}
		l.take(word, n)
	case l.postgres && c == '$':
		return l.dollars()
	case c == '$', !l.postgres && strings.IndexByte("?:@#", c) >= 0:
		return fmt.Errorf("must not contain parameters such as %.8q", s)
	case l.postgres && strings.HasPrefix(s, "::"):
		l.take(sign, 2)
	default:
		l.take(sign, 1)
	}
	return nil
}

func (l *lexer) take(kind tokenKind, n int) {
	l.add(kind, l.rest[:n], n)
}

func (l *lexer) add(kind tokenKind, text string, n int) {
	at := l.length - len(l.rest)
	l.tokens = append(l.tokens, token{kind, text, at, at + n})
	l.rest = l.rest[n:]
}

// quoted reads a token in quotes. It refuses a backslash in a PostgreSQL string other than
// E'…': its meaning depends on a setting.
func (l *lexer) quoted(end byte, kind tokenKind, escapes bool) error {
	s := l.rest
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] == '\\' && l.postgres && kind == quotedText:
			return fmt.Errorf(`has a backslash in a string: write E'…' with \\ for it`)
		case s[i] == '\\' && l.maria && kind == quotedText:
			return fmt.Errorf("has a backslash in a string, whose meaning depends on sql_mode: write it as char(92)")
		case s[i] != end:
		case end != ']' && i+1 < len(s) && s[i+1] == end:
			i++
		default:
			one := string(end)
			l.add(kind, strings.ReplaceAll(s[1:i], one+one, one), i+1)
			return nil
		}
	}
	return fmt.Errorf("has a %q that is not closed", s[0])
}

// dollars reads a token of the form $tag$…$tag$.
func (l *lexer) dollars() error {
	s := l.rest
	n := 1
	for n < len(s) && inWord(s[n]) {
		n++
	}
	if n == len(s) || s[n] != '$' || n > 1 && s[1] >= '0' && s[1] <= '9' {
		return fmt.Errorf("must not contain parameters such as %.8q", s)
	}
	tag := s[:n+1]
	inside, after, found := strings.Cut(s[n+1:], tag)
	if !found {
		return fmt.Errorf("has a %.60q that is not closed", tag)
	}
	l.add(quotedText, inside, len(s)-len(after))
	return nil
}

func inWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// Has reports whether the condition contains the word.
func (c *Condition) Has(name string) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == word && strings.EqualFold(t.text, name) })
}

// Names reports whether the condition contains the column's name.
func (c *Condition) Names(col Column) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool {
		return (t.kind == word || t.kind == quotedName) && strings.EqualFold(t.text, col.Name)
	})
}

// MayDependOn reports whether the condition may depend on the column. With a query in it, it may depend on any.
func (c *Condition) MayDependOn(col Column) bool {
	return c.Names(col) || c.wholeRow() || c.Has("select")
}

// wholeRow reports whether the condition uses the row as a whole, as in f(t) or t.*.
func (c *Condition) wholeRow() bool {
	for i, t := range c.tokens {
		if t.kind == word && t.text == "t" && (i+2 >= len(c.tokens) || c.tokens[i+1].text != "." || c.tokens[i+2].text == "*") {
			return true
		}
	}
	return false
}

// constructs lists words that may precede a parenthesis without calling a function that could write.
const constructs = " and or not in is between like ilike any all some case when then else exists coalesce nullif greatest least now "

// plain reports whether the condition's tokens show no function call, cast or query: only
// PostgreSQL's own constructs and operators.
func (c *Condition) plain() bool {
	for i, t := range c.tokens {
		switch {
		case t.kind == sign && t.text == "(" && i > 0:
			before := c.tokens[i-1]
			call := before.kind == quotedName || before.kind == word && !strings.Contains(constructs, " "+strings.ToLower(before.text)+" ")
			if call {
				return false
			}
		case t.kind == sign && !strings.Contains("()[]=<>!+-*/%|,.", t.text):
			return false
		}
	}
	return !c.Has("select") && !c.Has("cast") && !c.Has("operator")
}

// Comparison is a column with the literals that a condition compares it with, as in a = 1 or a in (1, 2).
type Comparison struct {
	Column
	Values []string
}

// Comparisons lists the comparisons of a condition, in their order; none if it contains a query.
func (p *Plan) Comparisons(c *Condition) (all []Comparison) {
	for i, t := range c.tokens {
		col, ok := p.columnOf(t)
		if !ok || i+2 >= len(c.tokens) || c.Has("select") {
			continue
		}
		var values []string
		switch rest := c.tokens[i+1:]; {
		case rest[0].text == "=" && rest[1].literal():
			values = []string{rest[1].text}
		case strings.EqualFold(rest[0].text, "in") && rest[1].text == "(":
			for _, r := range rest[2:] {
				if r.kind == sign && r.text == ")" {
					break
				}
				if r.literal() {
					values = append(values, r.text)
				}
			}
		}
		if len(values) > 0 {
			all = append(all, Comparison{col, values})
		}
	}
	return all
}

// Nulls lists the columns that a simple condition asks to be null.
func (p *Plan) Nulls(c *Condition) (all []Column) {
	if c.Has("or") || c.Has("not") || c.Has("case") || c.Has("select") {
		return nil
	}
	for i, t := range c.tokens {
		if col, ok := p.columnOf(t); ok && i+2 < len(c.tokens) && strings.EqualFold(c.tokens[i+1].text, "is") && strings.EqualFold(c.tokens[i+2].text, "null") {
			all = append(all, col)
		}
	}
	return all
}

// literal reports whether the token is a string, a number or a boolean.
func (t token) literal() bool {
	return t.kind == quotedText || t.kind == word && (t.text[0] >= '0' && t.text[0] <= '9' || strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false"))
}

// columnOf finds the column that a token names.
func (p *Plan) columnOf(t token) (Column, bool) {
	if t.kind != word && t.kind != quotedName {
		return Column{}, false
	}
	i := slices.IndexFunc(p.On.Columns, func(c Column) bool {
		return c.Name == t.text || strings.EqualFold(c.Name, t.text) && (t.kind == word || p.Dialect.Lenient)
	})
	if i < 0 {
		return Column{}, false
	}
	return p.On.Columns[i], true
}

// Unqualified is the condition without the alias t, which create index does not know.
func (c *Condition) Unqualified() string {
	var b strings.Builder
	from := 0
	for i, t := range c.tokens {
		if t.kind == word && t.text == "t" && i+1 < len(c.tokens) && c.tokens[i+1].text == "." {
			b.WriteString(c.text[from:t.at])
			from = c.tokens[i+1].end
		}
	}
	return b.String() + c.text[from:]
}
