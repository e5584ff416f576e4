package mytest

import (
	"errors"
	"os/exec"
)

func (s *server) unprivileged(*exec.Cmd) error {
	return errors.New("cannot start a MariaDB server on Windows")
}

func detach(*exec.Cmd) {}

const onDisk = ""

func inMemory() string { return "" }
