package mysql_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// BenchmarkQueuesOfACluster claims and finishes jobs of ten queues, in batches of ten, by four stores: all by one node of three, each by
// the nodes of its queues, and each by a node of its own whatever the queue is.
func BenchmarkQueuesOfACluster(b *testing.B) {
	const queues, stores, batch = 10, 4, 10
	c := mytest.NewCluster(b, 3)
	for _, way := range []struct {
		name    string
		address func(store int) string
	}{
		{"one node", func(int) string { return c.Nodes[0].Address() }},
		{"a node for each queue", func(int) string { return "root@tcp(" + c.Hosts() + ")/dibs" }},
		{"any node", func(i int) string { return c.Nodes[i%3].Address() }},
	} {
		b.Run(way.name, func(b *testing.B) {
			var all [stores]*mysql.Store
			for i := range all {
				all[i] = openStore(b, way.address(i))
			}
			for q := range queues {
				name := fmt.Sprint("q", q)
				for left := b.N/queues + 1; left > 0; left -= 1000 {
					jobs := make([]dibs.NewJob, min(left, 1000))
					for i := range jobs {
						jobs[i] = dibs.NewJob{Queue: name, Kind: "k"}
					}
					if _, err := all[0].Enqueue(context.Background(), jobs); err != nil {
						b.Fatal(err)
					}
				}
			}
			before := conflicts(b, c)
			b.ResetTimer()
			var group errgroup.Group
			var done atomic.Int64
			for i, s := range all {
				for q := range queues {
					group.Go(func() error { return drain(s, fmt.Sprint("q", (q+i)%queues), batch, &done) })
				}
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(done.Load())/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(conflicts(b, c)-before)/float64(done.Load())*1000, "conflicts/1000jobs")
		})
	}
}

// drain ends the jobs of a queue.
func drain(s *mysql.Store, queue string, batch int, done *atomic.Int64) error {
	for {
		jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: batch})
		if err != nil || len(jobs) == 0 {
			return err
		}
		outcomes := make([]dibs.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = j.Lease().Complete(nil)
		}
		if err := s.Finish(context.Background(), outcomes); err != nil {
			return err
		}
		done.Add(int64(len(jobs)))
	}
}

// conflicts is how many transactions the nodes have rolled back for others'.
func conflicts(b *testing.B, c *mytest.Cluster) (sum int) {
	b.Helper()
	for _, n := range c.Nodes {
		var some int
		err := galeraPool(b, n).QueryRow("select sum(variable_value) from information_schema.global_status where variable_name in ('wsrep_local_bf_aborts', 'wsrep_local_cert_failures')").Scan(&some)
		if err != nil {
			b.Fatal(err)
		}
		sum += some
	}
	return sum
}
