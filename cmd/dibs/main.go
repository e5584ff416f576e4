// Command dibs is a work queue in SQLite or PostgreSQL: it enqueues jobs, runs a
// program for each, and shows and changes what is queued. See 'dibs help'.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// Writing to a closed pipe must not kill the process: see output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	// A second signal kills a command that the first did not end. timeout(1) sends each signal twice.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
