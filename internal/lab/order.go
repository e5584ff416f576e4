package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// orderEnv is the environment variable that holds the order of a process. An order is no argument,
// since other users could read a password there.
const orderEnv = "DIBS_LAB_ORDER"

// Self returns the command by which a test's program starts itself with an order, which Obey follows.
func Self(order any) (*exec.Cmd, error) {
	text, err := json.Marshal(order)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	return cmd, err
}

// Obey runs f if Self started this process, and ends it then: f gets the order, and a context that
// ends with stdin. The main functions of tests call it.
func Obey[Order any](f func(ctx context.Context, o Order) error) {
	text := os.Getenv(orderEnv)
	if text == "" {
		return
	}
	ctx, stop := UntilEnd(context.Background(), os.Stdin)
	defer stop()
	var o Order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = f(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// UntilEnd returns a context that also ends when a reader does, which a process' parent keeps open.
func UntilEnd(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end, too
		stop()
	}()
	return ctx, stop
}
