// Package sql runs the examples of other languages: an order and its job are written in one
// transaction, by a role that may do nothing in the schema dibs but enqueue.
package sql

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// program is a script of a language, and what its error says of the field that is wrong.
type program struct {
	interpreter string
	probe       []string // arguments with which the interpreter succeeds if the libraries are there
	script      string
	says        string
}

const wrong = "22023 | priority | priority: must be 0 to 32767, got -1"

var programs = map[string]program{
	"psycopg":       {"/usr/bin/python3", []string{"-c", "import psycopg"}, "shop_psycopg.py", wrong},
	"Django":        {"/usr/bin/python3", []string{"-c", "import django, psycopg2"}, "shop_django.py", wrong},
	"node-postgres": {"node", []string{"--version"}, "shop_pg.mjs", wrong},
	"Perl's DBI":    {"perl", []string{"-e", "use DBD::Pg; use JSON::PP"}, "shop_dbi.pl", wrong},
	"PHP's PDO":     {"php", []string{"-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"}, "shop_pdo.php", "22023 | "},
}

func TestOrderAndJobAreOneTransaction(t *testing.T) {
	t.Parallel()
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.needs(t)
			s := newShop(t)
			out := s.run(t, p)
			if !strings.HasPrefix(out, p.says) || !strings.Contains(out, "priority: must be 0 to 32767, got -1") {
				t.Errorf("for a wrong priority it says %q, want %q", out, p.says)
			}
			s.hasOneOrderAndItsJob(t)
		})
	}
}

// needs skips the test where the language is not here. In CI that is a failure.
func (p program) needs(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), p.interpreter, p.probe...).CombinedOutput(); err != nil {
		needs.Missing(t, "needs %s with the libraries of %s (scripts/languages.sh installs them on Debian): %v\n%s", p.interpreter, p.script, err, out)
	}
}

// shop is a database of a shop that uses dibs.
type shop struct {
	owner string // URL of the role that owns all
	app   *url.URL
}

func newShop(t *testing.T) shop {
	t.Helper()
	owner := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), owner, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	role, password := "shop_"+strings.ToLower(rand.Text()), rand.Text()
	conn := connect(t, owner)
	for _, statement := range []string{
		"create table orders (id bigint generated always as identity primary key, item text not null)",
		"create role " + role + " login password '" + password + "'",
		"grant select, insert on orders to " + role,
		"grant usage on schema dibs to " + role,
		"grant execute on all functions in schema dibs to " + role,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	t.Cleanup(func() {
		conn := connect(t, owner)
		for _, statement := range []string{"drop owned by " + role, "drop role " + role} {
			if _, err := conn.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	app, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	app.User = url.UserPassword(role, password)
	return shop{owner, app}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	return conn
}

// run runs the script, and returns what it prints.
func (s shop) run(t *testing.T, p program) string {
	t.Helper()
	script, err := filepath.Abs(p.script)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(script, ".mjs") {
		script = filepath.Join(nodeModules(t), p.script)
	}
	password, _ := s.app.User.Password()
	dsn := "host=" + s.app.Hostname() + ";port=" + s.app.Port() + ";dbname=" + s.app.Path[1:]
	needs.Files(t, script)
	cmd := exec.CommandContext(t.Context(), p.interpreter, script)
	cmd.Env = append(
		os.Environ(), "DATABASE_URL="+s.app.String(),
		"DBI_DSN=dbi:Pg:"+dsn, "DBI_USER="+s.app.User.Username(), "DBI_PASS="+password,
		"PDO_DSN=pgsql:"+dsn, "PDO_USER="+s.app.User.Username(), "PDO_PASS="+password,
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.script, err, out)
	}
	return string(out)
}

// nodeModules is a copy of the folder node with the packages that it names.
func nodeModules(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// hasOneOrderAndItsJob checks what the script has left, and that a worker gets the job.
func (s shop) hasOneOrderAndItsJob(t *testing.T) {
	t.Helper()
	var id int64
	var items []string
	if err := connect(t, s.owner).QueryRow(t.Context(), "select min(id), array_agg(item) from orders").Scan(&id, &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != 1 || items[0] != "a lamp" {
		t.Errorf("the orders are %q, want a lamp alone", items)
	}
	store, err := postgres.Open(t.Context(), s.owner, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	jobs, err := store.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 10})
	isConfirmed(t, jobs, err, id)
	if found, err := store.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %q, %v", found, err)
	}
}

// isConfirmed checks what a claim has got: the job that confirms an order of a lamp.
func isConfirmed(t *testing.T, jobs []*dibs.RawJob, err error, id int64) {
	t.Helper()
	if err != nil || len(jobs) != 1 {
		t.Fatalf("a worker gets %d jobs, %v; want one", len(jobs), err)
	}
	var payload struct {
		Order int64
		Item  string
	}
	if err := json.Unmarshal(jobs[0].Payload, &payload); err != nil || payload.Order != id || payload.Item != "a lamp" || jobs[0].Kind != "confirm" {
		t.Errorf("the job is %s %s, %v; want kind confirm, order %d and a lamp", jobs[0].Kind, jobs[0].Payload, err, id)
	}
}
