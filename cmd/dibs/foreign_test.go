package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// Every verb but migrate leaves another program's file unchanged, byte for byte.
func TestAnotherProgramsFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "create table orders (id integer primary key)"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, "sqlite:"+path)
	for _, args := range [][]string{
		{"enqueue", "q", "null"},
		{"work", "q", "--until-empty", "--", "true"},
		{"claim", "q"},
		{"queue", "q", "--concurrency", "1"},
		{"check"},
		{"ls"},
		{"stats"},
		{"top", "--once"},
		{"show", "1"},
		{"queue"},
		{"locks"},
	} {
		c.Fails(cmdline.ExitSchema, "", args, path, "dibs migrate")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed: %v", err)
	}
	if names, err := filepath.Glob(path + "*"); err != nil || len(names) != 1 {
		t.Errorf("files are left beside it: %q, %v", names, err)
	}
	c.OK("migrate")
	c.OK("enqueue", "q", "null")
	c.OK("check")
}

// Only the next start of a program that died may undo what it has half written.
func TestAnotherProgramsHalfWrittenFileIsRefused(t *testing.T) {
	t.Parallel()
	path, left := filepath.Join(t.TempDir(), "shop.db"), filepath.Join(t.TempDir(), "left.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	const fill = "insert into orders with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000) select i from n"
	for _, s := range []string{"create table orders (id integer primary key)", "pragma cache_size = 1", "begin", fill} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string][]byte{}
	for _, end := range []string{"", "-journal"} {
		if before[end], err = os.ReadFile(path + end); err == nil {
			err = os.WriteFile(left+end, before[end], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(left, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{left, link} {
		c := newCLI(t, "sqlite:"+path)
		for _, verb := range []string{"stats", "claim", "ls", "enqueue q"} {
			c.Fails(cmdline.ExitSchema, "", strings.Fields(verb), path, "dibs migrate")
			for end, was := range before {
				if is, err := os.ReadFile(left + end); err != nil || !bytes.Equal(is, was) {
					t.Errorf("%s has changed %s%s: %v", verb, left, end, err)
				}
			}
		}
	}
}

func TestSQLiteURLs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.db")
	for _, url := range []string{path, "sqlite:" + path, "sqlite://" + path, "sqlite:///" + path, "sqlite:////" + path} {
		c := newCLI(t, url)
		c.OK("enqueue", "q", "null")
		if names, err := os.ReadDir(dir); err != nil || names[0].Name() != "jobs.db" {
			t.Errorf("%s: the folder has %v, %v", url, names, err)
		}
	}
	for _, db := range []string{"sqlite:" + path + "?mode=ro", "sqlite:" + filepath.Join(dir, "new.db") + "?mode=ro"} {
		c := newCLI(t, db)
		for _, args := range [][]string{{"enqueue", "q", "null"}, {"migrate"}, {"ls"}, {"adopt", "init", "orders"}} {
			c.Fails(cmdline.ExitUsage, "", args, "takes no parameters", "leave out the ?")
		}
	}
	odd := filepath.Join(dir, "odd?.txt")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, "sqlite:"+odd)
	c.OK("enqueue", "q", "null")
	c.OK("check")
	c.DB = "sqlite:" + os.DevNull
	c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "q", "null"}, os.DevNull+" is a named pipe, a socket or a device")
}
