package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// migrate prints what it has created, and where.
func TestMigrateSaysWhatItDid(t *testing.T) {
	onEachEmpty(t, func(c *cli) {
		kind, first, newest := "postgres", "0001_first.sql", 2
		if scheme, _, _ := strings.Cut(c.DB, ":"); scheme != "postgres" {
			kind, first, newest = scheme, "0001_jobs.sql", map[string]int{"sqlite": 2, "mysql": 1}[scheme]
		}
		out := c.OK("migrate")
		for _, w := range []string{"ran " + first, "schema", fmt.Sprintf("has version %d now", newest)} {
			if !strings.Contains(out, w) {
				c.T.Errorf("%s: migrate says %q, without %q", kind, out, w)
			}
		}
		if out := c.OK("migrate"); !strings.Contains(out, fmt.Sprintf("is up to date at version %d", newest)) {
			c.T.Errorf("%s: the second migrate says %q", kind, out)
		}
		if got, want := c.OK("migrate", "--json"), fmt.Sprintf(`{"migrated":true,"version":%d,"ran":[]}`, newest)+"\n"; strings.ReplaceAll(got, " ", "") != want {
			c.T.Errorf("%s: migrate --json says %s, want %s", kind, got, want)
		}
		all := c.OK("migrate", "--print", "--no-transaction")
		if strings.Contains(all, "begin;") || strings.Contains(all, "commit;") || !strings.Contains(all, "create table") {
			c.T.Errorf("%s: migrate --print --no-transaction writes:\n%.200s", kind, all)
		}
		if none := c.OK("migrate", "--print", "--since", fmt.Sprint(newest)); none != "" {
			c.T.Errorf("%s: migrate --print --since %d writes %q", kind, newest, none)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"migrate", "--print", "--since", fmt.Sprint(newest + 1)}, "since", fmt.Sprint("must be 0 to ", newest))
		c.Fails(cmdline.ExitUsage, "", []string{"migrate", "--since", "1"}, "--print")
	})
}

// onEachEmpty runs a test on an empty database of each kind.
func onEachEmpty(t *testing.T, test func(c *cli)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newCLI(t, pgtest.URL(t)))
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		test(newCLI(t, mytest.URL(t)))
	})
}

// Tables with several prefixes in one database of MariaDB know nothing of each other.
func TestMigrateWithPrefixesInOneDatabase(t *testing.T) {
	t.Parallel()
	c := newCLI(t, mytest.URL(t))
	for i, prefix := range []string{"shop_", "shop_old_"} {
		as := func(args ...string) []string { return append(args, "--prefix", prefix) }
		c.Fails(cmdline.ExitSchema, "", as("enqueue", "mail", "1"), "no tables of dibs", "dibs migrate")
		if out := c.OK(as("migrate")...); !strings.Contains(out, "ran 0001_jobs.sql") {
			c.T.Errorf("with %s migrate says %q", prefix, out)
		}
		if out := c.OK(as("migrate")...); !strings.Contains(out, "is up to date") {
			c.T.Errorf("with %s the second migrate says %q", prefix, out)
		}
		for range i + 1 {
			c.OK(as("enqueue", "mail", "1")...)
		}
	}
	for i, prefix := range []string{"shop_", "shop_old_"} {
		if r := c.Run("", "work", "mail", "--until-empty", "--prefix", prefix, "--", "true"); r.Code != 0 {
			c.T.Errorf("with %s work ends with exit code %d and %s", prefix, r.Code, r.Err)
		}
		list := c.OK("ls", "--state", "completed", "--json", "--prefix", prefix)
		if strings.Count(list, `"id":`) != i+1 {
			c.T.Errorf("with %s the completed jobs are %s, want %d", prefix, list, i+1)
		}
		c.OK("check", "--prefix", prefix)
	}
	c.Fails(cmdline.ExitSchema, "", []string{"stats"}, "no tables of dibs")
}

// A worker without rights ends, and its error says which grants to run.
func TestWorkWithoutRightsEnds(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	owner := newCLI(t, pgtest.URL(t))
	owner.OK("migrate")
	c := newCLI(t, pgtest.Role(t, owner.DB, "grant usage on schema dibs to ROLE", "grant select on all tables in schema dibs to ROLE"))
	c.Fails(cmdline.ExitFailure, "", []string{"enqueue", "q", "1"}, "lacks a right", "permission denied", "grant ", "insert")
	r := c.Run("", "work", "q", "--", "true")
	if r.Code != cmdline.ExitFailure || !strings.Contains(r.Err, "lacks a right") || !strings.Contains(r.Err, "grant insert, update, delete on") {
		t.Errorf("work ends with exit code %d and %s", r.Code, fmt.Sprintf("%.800s", r.Err))
	}
}
