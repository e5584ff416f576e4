package metrics

import (
	"strings"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// other is the label value of all names beyond the limits. A queue or kind with this name counts there, too.
const other = "other"

const (
	maxQueues = 500
	maxKinds  = 200
	maxPairs  = 1000 // most pairs of a queue and a kind
)

// names remembers which names have a label value of their own: the first ones, up to a limit.
type names struct {
	limit int
	own   map[string]bool
}

func newNames(limit int) names { return names{limit, map[string]bool{}} }

// label is the label value that stands for a name.
func (n *names) label(name string) string {
	switch {
	case n.own[name]:
		return name
	case len(name) > dibs.MaxName || !utf8.ValidString(name):
		name = clean(name)
	}
	if name == other || !n.own[name] && len(n.own) >= n.limit {
		return other
	}
	n.own[name] = true
	return name
}

// clean makes a label value of a name that SQL by hand has left: Prometheus takes only UTF-8.
func clean(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	for len(name) > dibs.MaxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
