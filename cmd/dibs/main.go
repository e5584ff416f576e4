// Command dibs is a work queue in SQLite or PostgreSQL: it enqueues jobs, runs a
// program for each, and shows and changes what is queued. See 'dibs help'.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// What nobody reads must not kill: see output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second one ends a command that the first could not
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
