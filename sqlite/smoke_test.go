package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), filepath.Join(t.TempDir(), "jobs.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		found, err := s.Check(context.Background())
		if err != nil || len(found) > 0 {
			t.Errorf("check: %v %v", found, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	var jobs []dibs.NewJob
	for i := range 100 {
		j := dibs.NewJob{Kind: "k", Payload: i}
		if i%3 == 0 {
			j.Group = "g"
		}
		if i%5 == 0 {
			j.UniqueKey = "u"
		}
		if i%7 == 0 {
			j.Delay = 50 * time.Millisecond
		}
		jobs = append(jobs, j)
	}
	e, err := s.Enqueue(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(e[:10])
	n := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		got, err := s.Claim(ctx, dibs.ClaimRequest{Worker: "w", N: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			st, _ := s.Stats(ctx)
			if st[0].Waiting+st[0].Blocked == 0 {
				break
			}
			continue
		}
		var o []dibs.Outcome
		for i, j := range got {
			n++
			if i%4 == 1 && j.Attempt == 1 {
				o = append(o, j.Lease().RetryAfter(0, "x"))
			} else {
				o = append(o, j.Lease().Complete([]byte(`{"a":1}`)))
			}
		}
		if err := s.Finish(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d %+v", n, st)
	p, err := s.List(ctx, dibs.Filter{State: dibs.Completed, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %s", p.Jobs[0], p.Next)
}
