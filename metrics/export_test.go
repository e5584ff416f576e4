package metrics

import (
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TouchAll gives every metric of a registry's process a value.
func TouchAll(t *testing.T, r prometheus.Registerer) {
	t.Helper()
	p, err := processOf(r)
	if err != nil {
		t.Fatal(err)
	}
	p.called("claim", time.Now(), errors.New("some error"))
}

// Described lists the names of all metrics.
func Described() (names []string) {
	name := regexp.MustCompile(`fqName: "([^"]*)"`)
	descs := make(chan *prometheus.Desc, 1000)
	p := newProcess()
	p.Describe(descs)
	newDatabase(nil, p).Describe(descs)
	close(descs)
	for d := range descs {
		names = append(names, name.FindStringSubmatch(d.String())[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The limits of label values.
const (
	MaxQueues = maxQueues
	MaxKinds  = maxKinds
	MaxPairs  = maxPairs
	StatsFor  = statsFor

	MaxFollowed = maxFollowed
)
