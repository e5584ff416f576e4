package database

import (
	"testing"
	"time"
)

// Jobs that nobody works are named with those that wait for them.
func TestDoctorFindsWhatFlowsWaitFor(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "pages", "1", "--kind", "render")
		c.OK("enqueue", "books", "1", "--kind", "bind", "--after", "1")
		c.finds(severityNote, "no_worker", "dibs work books -- PROGRAM", "queue books: no worker is registered for the queue (no job is due)")
		c.Register("anna", 1, nil, "books")
		c.finds(severityNote, "awaited", "dibs work pages -- PROGRAM", "queue pages: job 2 waits for jobs of kind render: no worker is registered for the queue")
		c.OK("enqueue", "books", "1", "--kind", "bind", "--after", "1")
		c.set(20*time.Minute, "update %sjob set run_at = @ where id = 1")
		c.finds(severityWrong, "awaited", "dibs work pages -- PROGRAM", "queue pages: 2 jobs, such as job 2, wait for jobs of kind render: no worker")
		c.Register("bernd", 1, []string{"png"}, "pages")
		c.finds(severityWrong, "awaited", "dibs ls pages --kind render", "no worker of the queue handles kind render")
		c.OK("pause", "pages")
		c.finds(severityNote, "awaited", "dibs resume pages", "the queue is paused")
		c.OK("resume", "pages")
		c.Register("cid", 1, nil, "pages")
		c.findsNo("awaited")
		c.Register("dora", 1, []string{"png"}, "pages")
		c.OK("claim", "pages", "--lease", "1h")
		c.BySQL("update %sworker set kinds = '" + c.list("png") + "' where name = 'cid'")
		c.findsNo("awaited") // it runs
		c.empty()
	})
}

// What is kept for followers is not late, and is said once it should have been deleted for a while.
func TestDoctorFindsEndedJobsThatAreKeptForFollowers(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Register("anna", 9, nil, "q")
		c.OK("enqueue", "q", "1")
		c.OK("enqueue", "q", "2", "--after-end", "1")
		c.OK("cancel", "1")
		c.findsNo("kept")
		c.set(24*time.Hour+5*time.Minute, "update %sfinished set finished_at = @")
		c.findsNo("kept")
		c.set(27*time.Hour, "update %sfinished set finished_at = @")
		c.finds(severityNote, "kept", "dibs flow 1", "queue q: 1 ended job that should have been deleted is kept, the first for 3h, since jobs that come after them have not ended (job 1 is one)")
		c.findsNo("late_history")
		c.OK("cancel", "2")
		c.findsNo("kept")
		c.empty()
	})
}

// Ends that nobody has looked at for a while are found.
func TestDoctorFindsEndsThatNobodySettles(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "1")
		c.OK("enqueue", "q", "2", "--after-end", "1")
		c.OK("cancel", "1")
		c.findsNo("late_flows")
		c.BySQL("insert into %sended_list (ids) values ('" + c.list("1") + "')")
		c.findsNo("late_flows")
		c.set(10*time.Minute, "update %sfinished set finished_at = @")
		c.finds(severityWrong, "late_flows", "dibs work QUEUE -- PROGRAM", "jobs ended 10m ago, and nobody has looked yet at those that come after them, as no worker is there")
		c.Register("anna", 9, nil, "q")
		c.finds(severityWrong, "late_flows", "dibs workers", "though workers are there")
		c.empty()
	})
}

// list writes an array of one element as the database's SQL has it.
func (c *cli) list(element string) string {
	if c.OnPostgres() {
		return "{" + element + "}"
	}
	if element != "1" {
		element = `"` + element + `"`
	}
	return "[" + element + "]"
}
