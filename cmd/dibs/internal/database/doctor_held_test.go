package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// Handlers that hang fill the places of their workers. It is said after a minute who holds which job for
// how long, and that none has ended since.
func TestItIsSaidWhoHoldsJobsThatHang(t *testing.T) {
	onEach(t, func(c *cli) {
		w := c.Register("anna", 2, nil, "mail")
		for range 3 {
			c.OK("enqueue", "mail", "1", "--kind", "send")
		}
		claimed := c.Rows(c.OK("claim", "mail", "-n", "2", "--worker", "anna", "--lease", "1h", "--json"))
		c.findsNo("hanging")
		c.set(2*time.Minute, "update %sjob set claimed_at = @ where token is not null")
		const next = "dibs queue mail --job-timeout DURATION"
		c.finds(severityNote, "hanging", next, "queue mail: worker anna (process 1 on h) has held job 1 (send) for 2m, job 2 (send) for 2m; no attempt of the queue has ended since; a timeout ends these attempts, and each of them counts (1 job is due")
		c.set(7*time.Minute, "update %sjob set claimed_at = @ where id = 1")
		c.finds(severityWrong, "hanging", next, "worker anna (process 1 on h) has held job 1 (send) for 7m, job 2 (send) for 2m")
		if got := c.WhyOf("mail"); got != "busy hanging" {
			c.T.Errorf("dibs stats gives the reasons %q", got)
		}
		c.Put(w)
		if got := c.OK("workers", "--jobs"); !strings.Contains(got, "1 send for 7m") || !strings.Contains(got, "2 send for 2m") {
			c.T.Errorf("dibs workers --jobs writes\n%s", got)
		}
		c.OK("queue", "mail", "--job-timeout", "5m") // the handler of job 1 does not heed it
		c.finds(severityWrong, "hanging", "kill 1 # on h", "worker anna (process 1 on h) has held job 1 (send) for 7m", "the queue's timeout of 5m is over, and its handlers do not heed that")
		c.OK("finish", fmt.Sprint(claimed[1]["id"]), fmt.Sprint(claimed[1]["token"]), "--completed")
		c.finds(severityWrong, "hanging", "kill 1 # on h", "worker anna (process 1 on h) has held job 1 (send) for 7m; the queue's timeout")
		c.OK("queue", "mail", "--job-timeout", "0s")
		c.findsNo("hanging")
		c.empty()
	})
}

// Where all places of a queue are held by attempts that run far longer than its jobs ever did, it is wrong before others
// have waited for long; and a queue whose places another one holds is not to blame.
func TestAQueueThatHoldsAllPlacesIsWrongSoon(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Register("anna", 1, nil, "mail", "news")
		c.OK("enqueue", "mail", "1", "--kind", "send")
		first := c.Row(c.OK("claim", "mail", "--worker", "anna", "--json"))
		c.OK("finish", fmt.Sprint(first["id"]), fmt.Sprint(first["token"]), "--completed")
		c.set(4*time.Minute, "update %sfinished set finished_at = @, claimed_at = @")
		past := "update %stally set at = @"
		if !c.OnPostgres() {
			past = "update %stally set minute = @ / 60000000 where minute > 0"
		}
		c.set(4*time.Minute, past)
		c.OK("enqueue", "mail", "2", "--kind", "send", "--max-attempts", "1")
		c.OK("claim", "mail", "--worker", "anna", "--lease", "1h")
		c.OK("enqueue", "news", "3")
		c.set(2*time.Minute, "update %sjob set claimed_at = @ where token is not null")
		c.finds(severityWrong, "hanging", "dibs queue mail --job-timeout DURATION", "queue mail: worker anna (process 1 on h) has held job 2 (send) for 2m", "and 95 % of its last completed jobs took at most ", "each of them counts: 1 job has no other attempt left and would be dead")
		c.set(20*time.Minute, "update %sjob set run_at = @ where queue = 'news'")
		c.finds(severityWrong, "busy", "dibs ls mail --state running", "queue news: all places of its workers are taken (1 worker, 1 place), 1 of them by queue mail")
		c.empty()
	})
}

// Workers pass over rows that another transaction has locked, so nobody is seen to wait for it.
func TestTheDoctorNamesWhoHoldsRowsThatWorkersPassOver(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	c := newCLI(t, address)
	c.OK("migrate")
	c.OK("schedule", "add", "nightly", "--cron", "@daily", "--queue", "mail")
	c.Register("anna", 1, nil, "mail", "other")
	c.OK("enqueue", "other", "1")
	c.OK("claim", "other", "-n", "1")
	c.OK("enqueue", "other", "1")
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
		c.Register("anna", 1, nil, "mail", "other") // seen again, however slow this is
		c.finds(severityWrong, "late_schedule", next, "schedule nightly should have made a job 10m ago, as process ", " of the server holds its row, in a transaction that is open for ", "; report, user ", "idle in transaction: "+lock)
	}
	hold("select 1")
	c.Register("anna", 1, nil, "mail", "other")
	c.finds(severityWrong, "late_schedule", "dibs schedule show nightly", "though workers are there")
	c.empty()
}
