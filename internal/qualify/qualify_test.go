package qualify

import (
	"strings"
	"testing"
)

func TestTextNamesTheServersOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ plain, want string }{
		{"select a=b, lower(c), d::text", "select a operator(pg_catalog.=)b, pg_catalog.lower(c), d::pg_catalog.text"},
		{"select v->'k'->>0", "select v operator(pg_catalog.->)'k' operator(pg_catalog.->>)0"},
		{"select count(*), t.*, a*b from (select * from t)", "select pg_catalog.count(*), t.*, a operator(pg_catalog.*)b from (select * from t)"},
		{"update t set a = b = c, d = -1", "update t set a = b operator(pg_catalog.=) c, d = -1"},
		{"select x in ('a', 'b')", "select x operator(pg_catalog.=) any (array['a', 'b'])"},
		{"select f(n => -1e-05, m => 1e+06)", "select pg_catalog.f(n => -1e-05, m => 1e+06)"},
		{"select cast(a as double precision)", "select cast(a as double precision)"},
		{"select from pg_class c join pg_index i on true", "select from pg_catalog.pg_class c join pg_catalog.pg_index i on true"},
		{"select from pg_catalog.pg_class", "select from pg_catalog.pg_class"},
		{"select 'a = b' -- c = d", "select 'a = b' -- c = d"},
	} {
		if got := Text(c.plain); got != c.want {
			t.Errorf("%s\nis  %s\nnot %s", c.plain, got, c.want)
		}
		if again := Text(Text(c.plain)); again != c.want {
			t.Errorf("%s\nis, the second time, %s", c.plain, again)
		}
	}
}

// Text does not change a marked part in any place where it would change other text.
func TestTextLeavesWhatIsTheirs(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{
		"a = lower(b)", "s in ('x', 'y')", "a -- (", "E'\\''", "'\x02 = \x01'", "\x02", "", "where a", "pg_class",
		"character varying(20)", `public."my type"`, "nullif(a, b)",
	} {
		for _, c := range [][2]string{
			{"select (", ") = 1"},
			{"select coalesce(", ", 0)"},
			{"select x::", ""},
			{"select 1 in (", ")"},
			{"select nullif(", ", 1)"},
			{"update t set a = ", ", b = c"},
			{"select from ", ""},
			{"select a=", "=b"},
		} {
			// A name in place of the part shows what Text writes around it.
			want := strings.ReplaceAll(Text(c[0]+`"here"`+c[1]), `"here"`, theirs)
			if got := Text(c[0] + Theirs(theirs) + c[1]); got != want {
				t.Errorf("%q with %q\nis  %q\nnot %q", c, theirs, got, want)
			}
		}
	}
	if got := Text(Theirs("a = b") + Theirs("c = d")); got != "a = bc = d" {
		t.Errorf("side by side: %q", got)
	}
}
