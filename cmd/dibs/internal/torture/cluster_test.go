package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/open"
)

// TestEveryPromiseIsKeptOnACluster hits the nodes of a cluster one after the other while a torture goes on: make cluster-test.
func TestEveryPromiseIsKeptOnACluster(t *testing.T) {
	c := mytest.NewCluster(t, 3)
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("DIBS_CLUSTER_FOR"), "2m"))
	if err != nil {
		t.Fatal(err)
	}
	url := "mysql://root@" + c.Hosts() + "/dibs"
	if err := open.Migrate(t.Context(), open.URL(url), open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seed := uint64(time.Now().UnixNano())
	faults := &nodeFaults{t: t, c: c, rng: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}}
	r, err := Run(t.Context(), Config{
		About: About{Workers: 4, Seed: seed, Duration: lasts}, DB: db, URL: url, Effects: "effects", Dir: clusterDir(t),
		Server: faults, Processes: testProcesses{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("TORTURE_SEED=%d; %v; %+v; %v", seed, r.Faults, r.Totals, faults.counts)
	for _, v := range r.Verdicts {
		t.Logf("%d: %d cases", v.Number, v.Checked)
		for i, b := range v.Broken {
			if i == 3 {
				t.Errorf("and %d more", len(v.Broken)-i)
				break
			}
			t.Errorf("promise %d (%s) was broken: %s\n%s", v.Number, v.Promise, b.Text, strings.Join(Lines(&b), "\n"))
		}
	}
}

// nodeFaults hits one node at a time.
type nodeFaults struct {
	t      *testing.T
	c      *mytest.Cluster
	rng    *rand.Rand
	undo   func() error
	node   *mytest.Node
	counts map[string]int
}

// Crash hits a node.
func (f *nodeFaults) Crash(bool) error {
	i := f.rng.IntN(len(f.c.Nodes))
	n := f.c.Nodes[i]
	f.node = n
	faults := []struct {
		name     string
		do, undo func() error
	}{
		{"killed", n.Kill, n.Start},
		{"stopped", n.Stop, n.Start},
		{"frozen", n.Freeze, n.Thaw},
		{"cut off", func() error { return f.c.Cut(i) }, func() error { return f.c.Mend(i) }},
	}
	if !f.c.CanCut() {
		faults = faults[:3]
	}
	fault := faults[f.rng.IntN(len(faults))]
	f.undo = fault.undo
	f.counts[fault.name]++
	f.t.Logf("%s node %d is %s", time.Now().Format("15:04:05.000"), i+1, fault.name)
	return fault.do()
}

// Start has the node come back after a while.
func (f *nodeFaults) Start() error {
	time.Sleep(time.Duration(f.rng.IntN(6000)) * time.Millisecond)
	if err := f.undo(); err != nil {
		return err
	}
	began := time.Now()
	if err := f.node.Joined(len(f.c.Nodes)); err != nil {
		return fmt.Errorf("a node does not come back: %w", err)
	}
	f.t.Logf("%s it has joined again, %v after it was let go", time.Now().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond))
	return nil
}

// clusterDir is where the records go: to DIBS_CLUSTER_DIR, where they stay, or to a folder of the test.
func clusterDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("DIBS_CLUSTER_DIR"); dir != "" {
		return dir
	}
	return t.TempDir()
}
