package main

import (
	"context"
	"database/sql"
	"io"
	"os/exec"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

func newRootCmd(a *app) *cobra.Command { return newRoot(a.App) }

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return bridge(cmdline.NewApp(stdin, stdout, stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return clitest.Run(ctx, args, stdin, stdout, stderr)
}

// cli runs the command on one database.
type cli struct {
	*clitest.CLI
	t  *testing.T
	db string
}

func newCLI(t *testing.T, db string) *cli { return &cli{&clitest.CLI{T: t, DB: db}, t, db} }

type (
	object    = clitest.Object
	runResult = clitest.Result
)

func onEach(t *testing.T, test func(c *cli)) {
	t.Helper()
	clitest.OnEach(t, func(c *clitest.CLI) { test(newCLI(c.T, c.DB)) })
}

func onSQLite(t *testing.T) *cli { return newCLI(t, clitest.OnSQLite(t).DB) }

const (
	patience  = clitest.Patience
	asCommand = clitest.AsCommand
)

// The tests of the demo, the torture and the bench use these names, and set the fields t and db.

func (c *cli) own() *clitest.CLI {
	if c.CLI == nil {
		c.CLI = &clitest.CLI{}
	}
	c.T, c.DB = c.t, c.db
	c.t.Helper()
	return c.CLI
}

func (c *cli) run(stdin string, args ...string) runResult { return c.own().Run(stdin, args...) }
func (c *cli) ok(args ...string) string                   { return c.own().OK(args...) }

func (c *cli) rows(text string) []object        { return c.own().Rows(text) }
func (c *cli) has(o, want object)               { c.own().Has(o, want) }
func (c *cli) command(args ...string) *exec.Cmd { return c.own().Command(args...) }
func (c *cli) finished(cmd *exec.Cmd) runResult { return c.own().Finished(cmd) }
func (c *cli) write(name, text string) string   { return c.own().Write(name, text) }

func (c *cli) fails(code int, stdin string, args []string, words ...string) {
	c.own().Fails(code, stdin, args, words...)
}

func (c *cli) refused(r runResult, code int, args []string, words ...string) {
	c.own().Refused(r, code, args, words...)
}

// adopting is a cli on a database with another program's table, and a mapping for it.
type adopting struct {
	*cli
	*clitest.TicketTable
	mapping string
	sql     *sql.DB
}

// adoptTickets creates the table and the mapping.
func adoptTickets(c *cli, mapping string) *adopting {
	x := clitest.MakeTickets(c.CLI, mapping)
	return &adopting{c, x, x.Mapping, x.SQL}
}

const (
	ticketsHead = clitest.TicketsHead
	byToken     = clitest.ByToken
	bySide      = clitest.BySide
)

func (x *adopting) exec(text string)                  { x.Exec(text) }
func (x *adopting) withTable(args ...string) []string { return x.WithTable(args...) }
func (x *adopting) status() string                    { return x.Status() }
