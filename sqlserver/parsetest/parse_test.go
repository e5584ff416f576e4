// Package parsetest reads the statements of package sqlserver with a parser of T-SQL. It is a module of its own, as programs
// that use dibs need no parser.
package parsetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sqlc-dev/teesql/parser"
)

var (
	parameter = regexp.MustCompile(`\?([0-9]+)`)
	// The parser takes job for a keyword, which it is not, and does not read a collation inside of the arguments of a function.
	job       = regexp.MustCompile(`([^@\w])(job)\b`)
	collation = " collate Latin1_General_100_BIN2_UTF8"
)

// parse reads statements, each of which must end with a semicolon: without one the parser, as the server, takes words that it does
// not know for the name of a procedure.
func parse(text string) error {
	text = parameter.ReplaceAllString(text, "@p$1")
	text = strings.ReplaceAll(job.ReplaceAllString(text, "$1[job]"), collation, "")
	script, err := parser.Parse(context.Background(), strings.NewReader(text))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(script)
	if err != nil {
		return err
	}
	var read struct {
		Batches []struct {
			Statements []struct{ StartOffset, FragmentLength int }
		}
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	for _, b := range read.Batches {
		for _, s := range b.Statements {
			if one := text[s.StartOffset : s.StartOffset+s.FragmentLength]; !strings.HasSuffix(one, ";") && !strings.HasSuffix(one, "end") {
				return fmt.Errorf("a statement ends in its midst: %q", one)
			}
		}
	}
	return nil
}

func TestEachStatementIsTSQL(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../sql/*.sql")
	if err != nil || len(names) < 160 {
		t.Fatalf("there are %d statements: %v", len(names), err)
	}
	migrations, err := filepath.Glob("../migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatalf("there are no migrations: %v", err)
	}
	for _, name := range append(names, migrations...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := parse(string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatTheParserIsWorth says which errors it finds. It knows the grammar, and neither names of tables, columns, functions
// and types nor the words of all hints.
func TestWhatTheParserIsWorth(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"select a from t where b = 1 order by":                       true,
		"select a,, b from t":                                        true,
		"select a = b = c from t":                                    true,
		"select not a from t":                                        true,
		"select (a = 1) from t":                                      true,
		"select case when a = 1 then 2 from t":                       true,
		"select exists (select 1 from t)":                            true,
		"select a from t limit 1":                                    true,
		"select a from t for update skip locked":                     true,
		"insert into t (a) valus (1)":                                true,
		"insert into t (a) values (1) on duplicate key update a = 1": true,
		"update t set a = 1 returning a":                             true,
		"delete e from json_table(@a, '$[*]' columns (id bigint)) i": true,
		"declare @a int = ; select 1":                                true,
		"select a from t with (readpst)":                             true,
		"select a from t with (rowlock, updlock, readpst)":           false,
		"select a from t option (maxdop 1, lop join)":                false,
		"update q set a = 1 output insertd.id from x":                false,
		"selct 1":                 false, // the call of a procedure
		"select lenght(a) from t": false,
		"select a from openjson(@x) with (id bigint '$' i": false,
		"declare @a bignt = 1; select @a":                  false,
	} {
		if err := parse(text + ";"); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}
