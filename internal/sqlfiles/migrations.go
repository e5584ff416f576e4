package sqlfiles

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
)

// Migration is one numbered file of migrations/.
type Migration struct {
	Version int
	Name    string // the file's
	Text    string
	// Compatible is the version that a program must know to use the schema after the migration, as a line in its
	// header says. Without that line it is the migration's own version: no older program can use it.
	Compatible int
}

// Migrations reads the files of migrations/ in order. It panics if they are not numbered from 1, which is an error of this module.
func Migrations(files fs.FS) []Migration {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	list := make([]Migration, len(names))
	for i, name := range names {
		m := Migration{Version: i + 1, Name: strings.TrimPrefix(name, "migrations/"), Text: read(files, name), Compatible: i + 1}
		if !strings.HasPrefix(m.Name, fmt.Sprintf("%04d_", m.Version)) {
			panic("dibs: migrations are not numbered in order: " + m.Name)
		}
		for line := range strings.Lines(m.Text) {
			version, ok := strings.CutPrefix(line, "-- Compatible with programs that know version ")
			if !ok {
				continue
			}
			version = strings.TrimSuffix(version, ".\n")
			if m.Compatible, err = strconv.Atoi(version); err != nil || m.Compatible < 1 || m.Compatible > m.Version {
				panic(fmt.Sprintf("dibs: migration %d is compatible with version %s", m.Version, version))
			}
		}
		list[i] = m
	}
	return list
}

// Since lists the migrations after a version.
func Since(list []Migration, version int) ([]Migration, error) {
	if version < 0 || version > len(list) {
		return nil, &dibs.InvalidError{Field: "since", Reason: fmt.Sprintf("must be 0 to %d, the newest version that this program knows, got %d", len(list), version)}
	}
	return list[version:], nil
}
