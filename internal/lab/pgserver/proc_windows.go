package pgserver

import (
	"errors"
	osexec "os/exec"
)

type account struct{}

func unprivileged() (*account, error) {
	return nil, errors.New("cannot start a PostgreSQL server on Windows")
}

func (a *account) chown(...string) error { return nil }

func detach(*osexec.Cmd, *account) {}
