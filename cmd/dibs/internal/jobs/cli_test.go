package jobs

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/queues"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) { clitest.Main(m, testRoot) }

// testRoot makes the commands that tests of this package run.
func testRoot(run *cmdline.App) *cobra.Command {
	return cmdline.NewRoot(run, nil, slices.Concat(Commands(run), queues.Commands(run)))
}

func newRootCmd(a *app) *cobra.Command { return testRoot(a.App) }

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{cmdline.NewApp(stdin, stdout, stderr)}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return clitest.Run(ctx, args, stdin, stdout, stderr)
}

// cli runs the command on one database.
type cli struct{ *clitest.CLI }

type (
	object    = clitest.Object
	runResult = clitest.Result
)

func onEach(t *testing.T, test func(c *cli)) {
	t.Helper()
	clitest.OnAll(t, func(c *clitest.CLI) { test(&cli{c}) })
}

func onSQLite(t *testing.T) *cli { return &cli{clitest.OnSQLite(t)} }
