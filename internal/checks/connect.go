package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// notConnected says in one sentence why a connection was not made. pgx has one line for each try, and tries some
// addresses twice.
type notConnected struct {
	to    string
	cause error
	err   error
}

func (e *notConnected) Error() string { return fmt.Sprintf("no connection to %s: %v", e.to, e.cause) }
func (e *notConnected) Unwrap() error { return e.err }

// NotConnected names the first of some servers to which no connection was made, and the first cause in err.
func NotConnected(err error, servers ...string) error {
	if errors.As(err, new(*notConnected)) {
		return err
	}
	e := &notConnected{to: "the server", cause: firstCause(err), err: err}
	if len(servers) > 0 {
		e.to = servers[0]
	}
	if n := len(servers); n > 1 {
		e.to += fmt.Sprintf(" and %d more", n-1)
	}
	return e
}

// refusal is an error that a PostgreSQL server has sent, whatever the driver.
type refusal interface {
	error
	SQLState() string
}

func firstCause(err error) error {
	var refused refusal
	var network *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &name):
		return name
	case errors.As(err, &network):
		return network.Err
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return firstOf(err)
}

// firstOf is the first of several errors that were joined.
func firstOf(err error) error {
	var all interface{ Unwrap() []error }
	if errors.As(err, &all) && len(all.Unwrap()) > 0 {
		return firstOf(all.Unwrap()[0])
	}
	return err
}

// Connecting is NotConnected for an error of whatever driver, if that has listed why it could not connect. Other errors stay.
func Connecting(err error) error {
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) {
		return err
	}
	var servers []string
	is := false
	for _, each := range list.Unwrap() {
		var dial *net.OpError
		var refused refusal
		switch {
		case errors.As(each, &dial) && dial.Op == "dial":
			if to := dial.Addr; to != nil && !slices.Contains(servers, to.String()) {
				servers = append(servers, to.String())
			}
			is = true
		case errors.As(each, new(*net.DNSError)), errors.As(each, &refused) && whileConnecting(refused.SQLState()):
			is = true
		case !errors.Is(each, context.DeadlineExceeded):
			return err
		}
	}
	if !is {
		return err
	}
	return NotConnected(err, servers...)
}

// whileConnecting reports whether a server refuses connections with a code: authorization, no such database, resources, operator
// intervention.
func whileConnecting(code string) bool {
	return len(code) == 5 && slices.Contains([]string{"28", "3D", "53", "57"}, code[:2])
}
