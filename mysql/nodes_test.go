package mysql_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// TestCallsGoToAnotherNodeAndBack kills and freezes the node of a queue, and cuts it off, and then lets it come back.
func TestCallsGoToAnotherNodeAndBack(t *testing.T) {
	c := mytest.NewCluster(t, 3)
	s := openStore(t, "root@tcp("+c.Hosts()+")/dibs")
	home := s.HomeOf(t.Context(), "q")
	i := slices.IndexFunc(c.Nodes, func(n *mytest.Node) bool { return n.Host() == home })
	if i < 0 {
		t.Fatalf("the home of the queue is %q", home)
	}
	n := c.Nodes[i]
	for _, fault := range []struct {
		name     string
		do, undo func() error
	}{
		{"killed", n.Kill, n.Start},
		{"stopped", n.Stop, n.Start},
		{"frozen", n.Freeze, n.Thaw},
		{"cut off", func() error { return c.Cut(i) }, func() error { return c.Mend(i) }},
	} {
		if fault.name == "cut off" && !c.CanCut() {
			continue
		}
		work(t, s, 20)
		must(t, fault.do())
		began := time.Now()
		first := work(t, s, 1)
		work(t, s, 20)
		t.Logf("%s: the first job was through after %v, 20 more after %v", fault.name, first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		if now := s.HomeOf(t.Context(), "q"); now == home {
			t.Errorf("%s: the calls still go to the node", fault.name)
		}
		must(t, fault.undo())
		must(t, n.Joined(3))
		began = time.Now()
		for s.HomeOf(t.Context(), "q") != home {
			work(t, s, 1)
		}
		t.Logf("%s: calls go to the node again %v after it has joined", fault.name, time.Since(began).Round(time.Millisecond))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// work enqueues jobs and finishes them, one after the other, and says how long that took. What is unavailable is tried again.
func work(t *testing.T, s *mysql.Store, jobs int) time.Duration {
	t.Helper()
	began := time.Now()
	for done := 0; done < jobs; {
		err := throughOne(t, s)
		switch {
		case err == nil:
			done++
		case !errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrLeaseLost):
			t.Fatal(err)
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("no job gets through:", err)
		}
	}
	return time.Since(began)
}

func throughOne(t *testing.T, s *mysql.Store) error {
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		return err
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 5})
	if err != nil {
		return err
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	return s.Finish(t.Context(), outcomes)
}
