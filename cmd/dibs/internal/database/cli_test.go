package database

import (
	"io"
	"slices"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/daemon"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/queues"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) { clitest.Main(m, testRoot) }

// testRoot makes the commands that tests of this package run.
func testRoot(run *cmdline.App) *cobra.Command {
	return cmdline.NewRoot(run, nil, slices.Concat(Commands(run), jobs.Commands(run), queues.Commands(run), daemon.Commands(run)))
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{cmdline.NewApp(stdin, stdout, stderr)}
}

// cli runs the command on one database.
type cli struct{ *clitest.CLI }

type object = clitest.Object

func newCLI(t *testing.T, db string) *cli { return &cli{&clitest.CLI{T: t, DB: db}} }

func onEach(t *testing.T, test func(c *cli)) {
	t.Helper()
	clitest.OnAll(t, func(c *clitest.CLI) { test(&cli{c}) })
}

// onAdoptable is onEach for tests of adopted tables, which are not on MariaDB.
func onAdoptable(t *testing.T, test func(c *cli)) {
	t.Helper()
	clitest.OnEach(t, func(c *clitest.CLI) { test(&cli{c}) })
}

func onSQLite(t *testing.T) *cli { return &cli{clitest.OnSQLite(t)} }

// adopting is a cli on a database with another program's table, and a mapping for it.
type adopting struct {
	*cli
	*clitest.TicketTable
}

// adoptTickets creates the table and the mapping.
func adoptTickets(c *cli, mapping string) *adopting {
	return &adopting{c, clitest.MakeTickets(c.CLI, mapping)}
}
