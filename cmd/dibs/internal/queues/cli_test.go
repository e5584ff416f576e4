package queues

import (
	"slices"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/daemon"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/database"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/top"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) { clitest.Main(m, testRoot) }

// testRoot makes the commands that tests of this package run.
func testRoot(run *cmdline.App) *cobra.Command {
	return cmdline.NewRoot(run, nil, slices.Concat(Commands(run), database.Commands(run), jobs.Commands(run), daemon.Commands(run), top.Commands(run)))
}

// cli runs the command on one database.
type cli struct{ *clitest.CLI }

type object = clitest.Object

func newCLI(t *testing.T, db string) *cli { return &cli{&clitest.CLI{T: t, DB: db}} }

func onEach(t *testing.T, test func(c *cli)) {
	t.Helper()
	clitest.OnAll(t, func(c *clitest.CLI) { test(&cli{c}) })
}
