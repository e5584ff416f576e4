package pgserver

import (
	"cmp"
	"errors"
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFound: there are no server programs on this machine.
var ErrNotFound = errors.New("no PostgreSQL server programs found")

// find returns the directory of initdb and postgres: dir, or where they are found.
func find(dir string) (string, error) {
	if dir != "" {
		if !isBin(dir) {
			return "", fmt.Errorf("%q holds no initdb and postgres", dir)
		}
		return filepath.Abs(dir)
	}
	for _, dir := range candidates() {
		if isBin(dir) {
			return dir, nil
		}
	}
	return "", ErrNotFound
}

// inMemory is a directory in memory for a server's files, or "" for the temporary one.
func inMemory() string {
	const memory, need = "/dev/shm", 4 << 30 // bytes: the log, and the databases of tests that run at once
	if free(memory) > need {
		return memory
	}
	return ""
}

// candidates lists where server programs may be, newest Debian version first:
// Debian keeps them out of PATH.
func candidates() []string {
	var dirs []string
	if out, err := osexec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	dirs = append(dirs, debian...)
	if path, err := osexec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

func version(bin string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	if err != nil {
		return 0
	}
	return n
}

func isBin(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := osexec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}
