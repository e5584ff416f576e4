package sqlfiles

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/dibs-queue/dibs"
)

func TestMarkedPartsOfAStatement(t *testing.T) {
	t.Parallel()
	none, all := func(string) bool { return false }, func(string) bool { return true }
	const text = "a\n  -- for x {\n  b\n  -- }\nc -- for y\n-- for two, three {\nd\n-- }\n  -- for x, as above\ne"
	if got, want := Parts(text, none), "a\nc -- for y\ne"; got != want {
		t.Errorf("without its marked parts it is %q, want %q", got, want)
	}
	const again = "a\n  -- for x {\n  b\n  -- }\nc -- for y\n-- for two, three {\nd\n-- }\n  -- for x {\n  b\n  -- }\ne"
	if got := Parts(text, all); got != again {
		t.Errorf("with them it is %q, want %q", got, again)
	}
}

func TestStatementsAreReadWithoutTheirHeaders(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"sql/a.sql": {Data: []byte("-- Purpose: it\n-- is one.\nselect 1 -- one\n")},
		"sql/b.sql": {Data: []byte("select 2\n")},
	}
	if got := Names(files); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("the statements are %q", got)
	}
	if got := Statement(files, "a"); got != "select 1 -- one\n" {
		t.Errorf("got %q", got)
	}
	mustPanic(t, "a name without a file", func() { Statement(files, "c") })
}

func TestMigrationsAreNumbered(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"migrations/0002_more.sql":  {Data: []byte("-- More.\n-- Compatible with programs that know version 1.\nsecond")},
		"migrations/0001_first.sql": {Data: []byte("first")},
		"migrations/0003_third.sql": {Data: []byte("third")},
	}
	list := Migrations(files)
	if len(list) != 3 || list[0] != (Migration{1, "0001_first.sql", "first", 1}) || list[1].Compatible != 1 || list[2].Compatible != 3 {
		t.Errorf("got %+v", list)
	}
	if left, err := Since(list, 2); err != nil || len(left) != 1 || left[0].Version != 3 {
		t.Errorf("after version 2 come %+v, %v", left, err)
	}
	for _, version := range []int{-1, 4} {
		if _, err := Since(list, version); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("after version %d: %v", version, err)
		}
	}
	for name, wrong := range map[string]fstest.MapFS{
		"a gap":           {"migrations/0002_x.sql": {Data: []byte("x")}},
		"a later version": {"migrations/0001_x.sql": {Data: []byte("-- Compatible with programs that know version 2.\n")}},
	} {
		mustPanic(t, name, func() { Migrations(wrong) })
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s is not refused", what)
		}
	}()
	f()
}
