package main

import "os/exec"

// spawner starts programs.
type spawner struct{}

func newSpawner() *spawner { return &spawner{} }

func (*spawner) start(cmd *exec.Cmd) error { return cmd.Start() }

func (*spawner) close() {}
