package cmdline

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Main runs the command that newRoot makes, and ends the process with its exit code.
func Main(newRoot func(*App) *cobra.Command) {
	// Writing to a closed pipe must not kill the process: see output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	// A second signal kills a command that the first did not end. timeout(1) sends each signal twice.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	a := NewApp(os.Stdin, os.Stdout, os.Stderr)
	code := a.Run(ctx, newRoot(a), os.Args[1:])
	stop()
	os.Exit(code)
}
