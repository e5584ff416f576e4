package runner

import (
	"os"
	"os/exec"
)

// Spawner starts programs.
type Spawner struct{}

func NewSpawner() *Spawner { return &Spawner{} }

func (*Spawner) Start(cmd *exec.Cmd) error { return cmd.Start() }

func (*Spawner) Close() {}

// awaitNoReader does nothing: this system tells it only to those who write.
func awaitNoReader(*os.File, func()) {}

// unread returns 0: this system does not tell how much of a pipe was read.
func unread(*os.File) int { return 0 }
