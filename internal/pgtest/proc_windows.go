package pgtest

import (
	"errors"
	osexec "os/exec"
)

type account struct{}

func unprivileged() (*account, error) {
	return nil, errors.New("cannot start a server on Windows; name a running one in " + EnvServer)
}

func (a *account) own(...string) error { return nil }

func detach(*osexec.Cmd, *account) {}
