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

// ErrNotFound says that this machine has no server programs.
var ErrNotFound = errors.New("no PostgreSQL server programs found")

// find returns the directory of initdb and postgres: dir, or the first candidate if dir is "".
func find(dir string) (string, error) {
	if dir != "" {
		if !isBin(dir) {
			return "", fmt.Errorf("%q has no initdb and postgres", dir)
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

// inMemory returns a directory in memory for a server's files, or "" if it has too little space.
func inMemory() string {
	const memory, needed = "/dev/shm", 4 << 30 // bytes, for the log and the databases of parallel tests
	if free(memory) > needed {
		return memory
	}
	return ""
}

// candidates lists directories that may hold server programs. Debian's directories are not
// in PATH, so it lists them too, the newest version first.
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
