package adopted

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// A condition stands in statements between parentheses. An accepted condition can neither close
// them nor hide what follows it, and its tokens cover all of its text.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"status = 'new'", "a = 'it''s' and (b is null or c in (1, 2))", `t."a b" > 1.5e3`, "x::int = any (array[1, 2])", `a = E'\'' or b = e'\\'`,
		"a = $tag$new ' $tag$", "`a` = [b c]", "status = 'new') or (1=1", "status = 'new'; drop table orders", "a -- b", "a /* b", "a = 'x' 'y'",
		`status = 'a\'`, "a = $1", "a = ?", "a = :x", "st\x01atus", "a = x'00'", "a[1] = 2", "(a]", `"a""b" = 'c'`, "größe > 1", "a\n= '\n'", "", "a -", "- a", "a = '\x00'", "a $ b", "a.$b", "1e5$x$", "= $" + strings.Repeat("é", 400) + "$ x",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	f.Fuzz(func(t *testing.T, text string, postgres bool) {
		tokens, err := lex(text, postgres)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%q is refused by %d bytes", text, len(err.Error()))
			}
			return
		}
		covered(t, text, tokens, postgres)
		inside, err := lex("("+text+")", postgres)
		if err != nil || len(inside) != len(tokens)+2 || endOf(inside) != len(inside)-1 {
			t.Fatalf("%q leaves its parentheses: %v, %v", text, inside, err)
		}
		for i, tok := range tokens {
			if in := inside[i+1]; in.kind != tok.kind || in.text != tok.text || in.at != tok.at+1 || in.end != tok.end+1 {
				t.Errorf("%q is read as %v, and between parentheses as %v", text, tokens, inside)
			}
		}
		if _, err := lex(text+")", postgres); err == nil {
			t.Errorf("%q is closed by nothing", text+")")
		}
		if !postgres {
			staysInside(t, db, text)
		}
	})
}

// covered checks that each token has the text at its place, and that only blanks stand between tokens.
func covered(t *testing.T, text string, tokens []token, postgres bool) {
	t.Helper()
	at := 0
	for _, tok := range tokens {
		between := text[at:tok.at]
		if postgres && tok.kind == quotedText && tok.at > at && strings.ContainsAny(text[tok.at-1:tok.at], "eE") {
			between = text[at : tok.at-1] // skip the E of E'…'
		}
		if strings.Trim(between, " \t\r\n") != "" {
			t.Errorf("%q is no part of a token of %q", between, text)
		}
		raw := text[tok.at:tok.end]
		if plain := tok.kind == word || tok.kind == sign; plain && raw != tok.text || !plain && len(raw) < len(tok.text)+2 {
			t.Errorf("%q is read as %q", raw, tok.text)
		}
		if tok.kind == sign && strings.ContainsAny(raw, ";'\"$\x00") {
			t.Errorf("%q is taken for an operator", raw)
		}
		if pair := text[max(0, tok.at-1):min(len(text), tok.at+1)]; tok.kind == sign && tok.at == at && (pair == "--" || pair == "/*") {
			t.Errorf("%q begins a comment with %s", text, pair)
		}
		at = tok.end
	}
	if strings.Trim(text[at:], " \t\r\n") != "" || strings.Contains(text, "\x00") {
		t.Errorf("%q is read as %v", text, tokens)
	}
}

// endOf finds the token that closes what the first token opens.
func endOf(tokens []token) int {
	depth := 0
	return slices.IndexFunc(tokens, func(tok token) bool {
		if tok.kind == sign {
			depth += strings.Count("([", tok.text) - strings.Count(")]", tok.text)
		}
		return depth == 0
	})
}

// staysInside lets SQLite judge: whatever the condition, the statement around it is a single one
// with two columns, and the second does not depend on the condition.
func staysInside(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	rows, err := db.Query("select (" + text + ") as inside, 'outside' as outside where 1 = 0")
	if err != nil {
		return
	}
	defer rows.Close()
	if columns, err := rows.Columns(); err != nil || !slices.Equal(columns, []string{"inside", "outside"}) {
		t.Errorf("with %q, SQLite sees the columns %q, %v", text, columns, err)
	}
	if rows.Next() || rows.NextResultSet() {
		t.Errorf("with %q, SQLite finds more than no row", text)
	}
}
