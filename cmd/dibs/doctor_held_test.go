package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/pgtest"
)

// Handlers that hang fill the places of their workers. It is said after a minute who holds which job for
// how long, and that none has ended since.
func TestItIsSaidWhoHoldsJobsThatHang(t *testing.T) {
	onEach(t, func(c *cli) {
		w := c.register("anna", 2, nil, "mail")
		for range 3 {
			c.ok("enqueue", "mail", "1", "--kind", "send")
		}
		claimed := c.rows(c.ok("claim", "mail", "-n", "2", "--worker", "anna", "--lease", "1h", "--json"))
		c.findsNo("hanging")
		c.set(2*time.Minute, "update %sjob set claimed_at = @ where token is not null")
		const next = "dibs queue mail --job-timeout DURATION"
		c.finds(severityNote, "hanging", next, "queue mail: worker anna has held job 1 (send) for 2m", "worker anna has held job 2 (send) for 2m", "no attempt of the queue has ended since (1 job is due")
		c.set(7*time.Minute, "update %sjob set claimed_at = @ where id = 1")
		c.finds(severityWrong, "hanging", next, "worker anna has held job 1 (send) for 7m", "worker anna has held job 2 (send) for 2m")
		if got := c.whyOf("mail"); got != "busy hanging" {
			c.t.Errorf("dibs stats gives the reasons %q", got)
		}
		c.put(w)
		if got := c.ok("workers", "--jobs"); !strings.Contains(got, "1 send for 7m") || !strings.Contains(got, "2 send for 2m") {
			c.t.Errorf("dibs workers --jobs writes\n%s", got)
		}
		c.ok("queue", "mail", "--job-timeout", "5m") // the handler of job 1 does not heed it
		c.finds(severityWrong, "hanging", "kill 1 # on h", "worker anna has held job 1 (send) for 7m", "the queue's timeout of 5m is over, and its handlers do not heed that")
		c.ok("finish", fmt.Sprint(claimed[1]["id"]), fmt.Sprint(claimed[1]["token"]), "--completed")
		c.finds(severityWrong, "hanging", "kill 1 # on h", "worker anna has held job 1 (send) for 7m; the queue's timeout")
		c.ok("queue", "mail", "--job-timeout", "0s")
		c.findsNo("hanging")
		c.empty()
	})
}

// Workers pass over rows that another transaction has locked, so nobody is seen to wait for it.
func TestTheDoctorNamesWhoHoldsRowsThatWorkersPassOver(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	c := &cli{t: t, db: address}
	c.ok("migrate")
	c.ok("schedule", "add", "nightly", "--cron", "@daily", "--queue", "mail")
	c.register("anna", 1, nil, "mail", "other")
	c.ok("enqueue", "other", "1")
	c.ok("claim", "other", "-n", "1")
	c.ok("enqueue", "other", "1")
	c.set(10*time.Minute, "update %sschedule set next_at = @")
	c.set(10*time.Minute, "update %sjob set run_at = @")
	holder := connectTo(t, address+"&application_name=report")
	pid := holder.PgConn().PID()
	hold := func(sql string) {
		t.Helper()
		for _, statement := range []string{"rollback", "begin", sql} {
			if _, err := holder.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := fmt.Sprintf("select pg_terminate_backend(%d);", pid)
	for _, lock := range []string{"select from dibs.schedule for update", "select from dibs.schedule for no key update", "update dibs.schedule set paused = paused"} {
		hold(lock)
		c.register("anna", 1, nil, "mail", "other") // seen again, however slow this is
		c.finds(severityWrong, "late_schedule", next, "schedule nightly should have made a job 10m ago, as process ", " of the server holds its row, in a transaction that is open for ", "; report, user ", "idle in transaction: "+lock)
	}
	hold("select 1")
	c.register("anna", 1, nil, "mail", "other")
	c.finds(severityWrong, "late_schedule", "dibs schedule show nightly", "though workers are there")
	c.empty()
}
