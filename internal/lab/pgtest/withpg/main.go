// Command withpg starts a throw-away PostgreSQL server and runs a command with the
// server's URL in DIBS_TEST_POSTGRES. Without a command it prints the URL and waits
// for Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && failed.ExitCode() > 0 {
			os.Exit(failed.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "withpg:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	server, err := pgtest.Launch()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		fmt.Println(server.URL())
		<-ctx.Done()
		return nil
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), pgtest.EnvServer+"="+server.URL())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
