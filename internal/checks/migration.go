package checks

import (
	"fmt"
	"regexp"
	"strconv"
)

var compatible = regexp.MustCompile(`(?m)^-- Compatible with programs that know version (\d+)\.$`)

// CompatibleWith is the version that a program has to know to use the schema after a
// migration, from the line of its header that says so. Without one it is the
// migration's own: no older program can.
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
