package checks

import (
	"fmt"
	"regexp"
	"strconv"
)

var compatible = regexp.MustCompile(`(?m)^-- Compatible with programs that know version (\d+)\.$`)

// CompatibleWith is the version that a program must know to use the schema after a
// migration, as a line in its header says. Without that line it is the migration's own
// version: no older program can use it.
func CompatibleWith(text string, version int) int {
	m := compatible.FindStringSubmatch(text)
	if m == nil {
		return version
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 || n > version {
		panic(fmt.Sprintf("dibs: migration %d is compatible with version %s", version, m[1]))
	}
	return n
}
