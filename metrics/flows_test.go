package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/metrics"
)

// Jobs that come after others are counted while they wait, and once they are released or cancelled.
func TestFollowersAreCounted(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		registered := func() *prometheus.Registry { // it has read nothing yet
			r := prometheus.NewRegistry()
			if err := metrics.Register(r, db); err != nil {
				t.Fatal(err)
			}
			return r
		}
		after := func(need dibs.Need) dibs.NewJob {
			return dibs.NewJob{Queue: "late", Kind: "k", After: []dibs.Dep{{Ref: "first", On: need}}}
		}
		_, err := db.Enqueue(t.Context(), []dibs.NewJob{
			{Queue: "early", Kind: "k", Ref: "first"}, after(dibs.NeedCompleted), after(dibs.NeedEnded), after(dibs.NeedFailed),
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, values(t, registered()), map[string]float64{
			"queue_followers{early}": 0, "queue_followers{late}": 3, "settled_followers_total{released}": 0, "settled_followers_total{cancelled}": 0,
		})
		jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "early", Worker: "w", N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		if err := db.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		settled := func() float64 {
			got := values(t, registered())
			return got["settled_followers_total{released}"] + got["settled_followers_total{cancelled}"]
		}
		for end := time.Now().Add(patience); settled() < 3 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		expect(t, values(t, registered()), map[string]float64{
			"queue_followers{late}": 0, "settled_followers_total{released}": 2, "settled_followers_total{cancelled}": 1,
		})
	})
}

// manyFollowers counts how often it was asked for followers.
type manyFollowers struct {
	counting
}

func (m *manyFollowers) Followers(_ context.Context, queue string) (int, error) {
	if err := m.call("followers"); err != nil || queue == "" {
		return 0, dibs.ErrInvalid
	}
	return 5, nil
}

// However many queues there are, the followers of a few are counted; of the others nothing is said that nobody knows.
func TestFollowersAreCountedOfTheQueuesWithMostBlockedJobs(t *testing.T) {
	t.Parallel()
	db := &manyFollowers{counting{Database: lite(t), stats: []admin.QueueStats{{Queue: "", Blocked: 1000}, {Queue: "idle"}, {Queue: "few", Blocked: 3}}}}
	for i := range 30 {
		db.stats = append(db.stats, admin.QueueStats{Queue: fmt.Sprint("q", i), Blocked: int64(1 + i)})
	}
	r := prometheus.NewRegistry()
	if err := metrics.Register(r, db); err != nil {
		t.Fatal(err)
	}
	got := values(t, r)
	if db.calls["followers"] != metrics.MaxFollowed {
		t.Errorf("the followers of %d queues were counted", db.calls["followers"])
	}
	expect(t, got, map[string]float64{"queue_followers{idle}": 0, "queue_followers{q29}": 5, "queue_jobs{q0,blocked}": 1})
	for _, name := range []string{"queue_followers{}", "queue_followers{q0}", "queue_followers{few}"} {
		if n, there := got[name]; there {
			t.Errorf("%s is %v, and nobody has counted", name, n)
		}
	}
}
