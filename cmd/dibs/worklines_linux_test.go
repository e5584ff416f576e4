package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// livingGroup tells which processes of a group are alive; zombies are not.
func livingGroup(group int) string {
	var alive []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil { // it has ended
			continue
		}
		var state string
		var parent, pgrp int
		_, rest, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent, &pgrp); err == nil && pgrp == group && state != "Z" {
			alive = append(alive, string(text))
		}
	}
	return strings.Join(alive, "")
}
