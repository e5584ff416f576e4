package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/jackc/pgx/v5"
)

// The command works behind a pooler in transaction mode, with and without --pooler, and leaves
// no state in connections that other clients get.
func TestTheCommandWorksBehindAPooler(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]string{"found": "", "flag": "--pooler", "URL": "&pooler=transaction"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			through := pgtest.Pooler(t, pgtest.URL(t))
			c := newCLI(t, through)
			do := func(args ...string) string {
				t.Helper()
				if told == "--pooler" {
					args = append([]string{told}, args...)
				}
				return c.OK(args...)
			}
			if strings.HasPrefix(told, "&") {
				c.DB += told
			}
			do("migrate")
			for range 5 {
				do("enqueue", "k")
				do("enqueue", "k", "--group", "g")
			}
			do("stats")
			do("ls")
			do("queue", "k", "--concurrency", "4")
			r := c.Run("", append(strings.Fields(strings.TrimPrefix(told, "&pooler=transaction")), "work", "k", "--until-empty", "--", "true")...)
			if r.Code != cmdline.ExitOK {
				t.Fatalf("dibs work: exit code %d\n%s", r.Code, r.Err)
			}
			if out := do("check"); out != "nothing wrong\n" {
				t.Errorf("dibs check: %s", out)
			}
			if out := do("ls", "k", "--state", "completed", "--json"); strings.Count(out, `"state":"completed"`) != 10 {
				t.Errorf("not all jobs are completed:\n%s", out)
			}
			nothingLeaked(t, through)
		})
	}
}

func TestPoolerIsForPostgreSQL(t *testing.T) {
	c := onSQLite(t)
	c.Fails(cmdline.ExitUsage, "", []string{"--pooler", "ls"}, "--pooler is for PostgreSQL")
	c.DB = "postgres://127.0.0.1:1/x?pooler=statement"
	c.Fails(cmdline.ExitUsage, "", []string{"ls"}, "pooler", "transaction or session")
}

// The processes of a demo and of a torture learn of the pooler from their parent, or find it
// themselves.
func TestDemoAndTortureWorkBehindAPooler(t *testing.T) {
	needs.Long(t)
	needs.Night(t, "TestItWorksBehindATransactionPooler tries the store behind one")
	t.Parallel()
	for name, args := range map[string][]string{
		"demo": {"demo", "--jobs", "500", "--json"}, "torture": {"torture", "--duration", "5s", "--workers", "2", "--seed", "7"}, "torture, told": {"--pooler", "torture", "--duration", "5s", "--workers", "2", "--seed", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for tries := 3; ; tries-- {
				through := pgtest.Pooler(t, pgtest.URL(t))
				cmd := exec.CommandContext(t.Context(), os.Args[0], append(slices.Clip(args), "--db", through)...)
				cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "TMPDIR="+t.TempDir())
				var messages strings.Builder
				cmd.Stderr = &messages
				out, err := cmd.Output()
				var verdict demoVerdictJSON
				if err != nil && json.Unmarshal(out, &verdict) == nil && len(verdict.Promises) > 0 && onlyLate(verdict) {
					t.Logf("the machine was too slow for the killed worker's jobs:\n%s", out)
					err = nil
				}
				if err == nil {
					nothingLeaked(t, through)
					return
				}
				// pgbouncer 1.18 ends by itself when a client goes while it cancels: github.com/pgbouncer/pgbouncer/issues/801
				conn, dead := pgx.Connect(t.Context(), through)
				if dead == nil {
					_ = conn.Close(t.Context()) // the connection was not used
				}
				if dead == nil || tries == 1 {
					t.Fatalf("dibs %s: %v, the pooler: %v\n%s%s", name, err, dead, out, messages.String())
				}
			}
		})
	}
}

// nothingLeaked checks all connections of the pooler to the server, as another client sees
// them.
func nothingLeaked(t *testing.T, through string) {
	t.Helper()
	config, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	for range pgtest.PoolerConns {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		tx, err := conn.Begin(t.Context()) // the transaction keeps a connection
		if err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(t.Context(), `
			select name || ' = ' || setting
			from pg_settings
			where source = 'session' and name not in ('client_encoding', 'standard_conforming_strings', 'DateStyle', 'TimeZone', 'application_name')
			union all
			select 'prepared: ' || statement from pg_prepared_statements
			union all
			select 'listens to ' || c from pg_listening_channels() c`)
		if err != nil {
			t.Fatal(err)
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("another client of the pooler finds %.300q", left)
		}
	}
}
