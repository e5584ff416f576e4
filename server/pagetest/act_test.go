package pagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/server"
)

// does presses a button and reports an error unless the page that follows says that something was done.
func (b *tab) does(selector, done string) {
	b.Helper()
	if status := b.press(selector); status != 200 {
		b.Errorf("%s leads to %d", selector, status)
	}
	b.want(`document.querySelector("[role=status]")`)
	b.says(done)
}

func TestEveryActionCanBeDoneByHand(t *testing.T) {
	withAndWithoutScripts(t, func(b *tab, s *shop, scripts bool) {
		b.queueActions(s)
		b.jobActions(s)
		b.manyActions(s, scripts)
		b.scheduleActions(s)
		b.finds(s)
		b.filters(s, scripts)
	})
}

func (s *shop) queue(name string) dibs.Queue {
	s.Helper()
	queues, err := s.Queues(s.Context())
	s.check(err)
	for _, q := range queues {
		if q.Name == name {
			return q
		}
	}
	s.Fatalf("there is no queue %s", name)
	return dibs.Queue{}
}

func (b *tab) queueActions(s *shop) {
	b.open("/queues/search")
	b.does(`form[action$="/pause"] button`, "The queue search is paused")
	if !s.queue("search").Paused {
		b.Error("the queue is not paused")
	}
	b.looks()
	b.does(`form[action$="/resume"] button`, "The queue search goes on")
	if s.queue("search").Paused {
		b.Error("the queue is paused")
	}
	b.click("#settings summary")
	more := fmt.Sprint(s.queue("search").Concurrency + 7)
	b.types("#f-concurrency", more)
	b.types("#f-lease", "45s")
	b.do(chromedp.Focus(chromedp.CSS("#f-order")), pressing("lifo"))
	b.press("#settings form button")
	b.says("Jobs at once")
	b.looks()
	if fmt.Sprint(s.queue("search").Concurrency) == more {
		b.Error("settings are changed before they are confirmed")
	}
	b.does("main form button", "of the queue search")
	if q := s.queue("search"); fmt.Sprint(q.Concurrency) != more || q.Lease != 45*time.Second || q.Order != "lifo" {
		b.Errorf("the settings are %+v", q)
	}
	b.click("#settings summary")
	b.types("#f-lease", "soon")
	b.expects("422")
	if status := b.press("#settings form button"); status != 422 {
		b.Errorf("a bad setting leads to %d", status)
	}
	b.says("lease")
	b.looks()
	b.expects()

	b.open("/queues/mail")
	b.types("input[name=kind]", "receipt")
	b.press(".filter button")
	b.want(`document.querySelectorAll("table.jobs tbody tr").length > 5`)
	b.want(`[...document.querySelectorAll("table.jobs [data-label=Kind]")].every((e) => e.innerText.trim() == "receipt")`)
	b.press(".filter a")
	b.press(`.pages a[rel=next]`)
	b.want(`document.querySelectorAll("table.jobs tbody tr").length > 5`)
	b.press(".pages a")
	b.press(`.tabs a[href="?state=dead"]`)
	b.want(`document.querySelector(".tabs [aria-current]").innerText.startsWith("dead")`)
	b.press("table.jobs td a")
	b.want(`document.querySelector("#state .dead")`)
	b.says("connection refused")
}

func (s *shop) job(id int64) *dibs.RawJob {
	s.Helper()
	j, err := s.Get(s.Context(), id)
	s.check(err)
	return j
}

func (b *tab) jobActions(s *shop) {
	id := s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv", Payload: "x"})
	b.open(fmt.Sprintf("/jobs/%d", id))
	b.click("#acts details:nth-of-type(2) summary")
	b.types("input[name=priority]", "7")
	b.types("input[name=run_at]", "3h")
	b.looks()
	b.does(`form[action$="/edit"] button`, "is changed")
	if j := s.job(id); j.Priority != 7 || time.Until(j.RunAt) < 2*time.Hour {
		b.Errorf("the job is %+v", j)
	}
	b.click("#acts summary")
	b.does(`form[action$="/cancel"] button`, "is cancelled")
	b.does(`form[action$="/requeue"] button`, "waits again")
	if j := s.job(id); j.State != dibs.Waiting {
		b.Errorf("the job is %s", j.State)
	}
	s.enqueue(dibs.NewJob{Queue: "stopping", Kind: "k"})
	b.open(fmt.Sprintf("/jobs/%d", s.claim("stopping", "w", 1)[0].ID))
	b.click("#acts summary")
	b.does(`form[action$="/cancel"] button`, "is asked to stop")
	b.says("asked to stop")
	b.want(`!document.querySelector('#acts form[action$="/cancel"]')`)
}

// manyActions changes jobs of a list: those that are ticked, and all.
func (b *tab) manyActions(s *shop, scripts bool) {
	var ids []int64
	for range 4 {
		ids = append(ids, s.enqueue(dibs.NewJob{Queue: "crowd", Kind: "k", Delay: time.Hour}))
	}
	b.expects("404")
	for b.open("/queues/crowd?state=waiting") != 200 { // what pages show may be a second old
		time.Sleep(100 * time.Millisecond)
	}
	b.expects()
	b.click(fmt.Sprintf(`input[name=id][value="%d"]`, ids[1]))
	b.click(fmt.Sprintf(`input[name=id][value="%d"]`, ids[2]))
	b.looks()
	b.press(`#many button[formaction$="/cancel"]`)
	b.says("Cancel: 2 jobs")
	b.looks()
	b.does("main form button", "2 jobs are cancelled")
	for i, want := range []dibs.State{dibs.Waiting, dibs.Cancelled, dibs.Cancelled, dibs.Waiting} {
		if j := s.job(ids[i]); j.State != want {
			b.Errorf("job %d of the crowd is %s", i, j.State)
		}
	}
	b.press(`.tabs a[href*="state=cancelled"]`)
	if scripts {
		b.click("#tick-all")
		b.want(`document.querySelectorAll("table.jobs tbody input:checked").length == 2`)
	} else {
		b.want(`getComputedStyle(document.getElementById("tick-all")).display == "none"`)
		b.click(fmt.Sprintf(`input[name=id][value="%d"]`, ids[1]))
		b.click(fmt.Sprintf(`input[name=id][value="%d"]`, ids[2]))
	}
	b.press(`#many button[formaction$="/requeue"]`)
	b.does("main form button", "2 jobs wait again")
	b.open("/queues/crowd?state=waiting&scheduled=yes")
	b.want(`document.querySelector(".tabs [aria-current]").innerText == "scheduled 2" && document.querySelectorAll("table.jobs tbody input").length == 2`)
	b.expects("422")
	if status := b.press(`#many button[formaction$="/start"]`); status != 422 {
		b.Errorf("no job is ticked: %d", status)
	}
	b.expects()
	b.open("/queues/crowd?state=waiting&scheduled=yes")
	b.do(chromedp.Focus(chromedp.CSS("#many select")), pressing("All"))
	b.press(`#many button[formaction$="/start"]`)
	b.says("Make due now: 2 jobs")
	b.does("main form button", "2 jobs are due now")
	if j := s.job(ids[0]); j.RunAt.After(time.Now()) {
		b.Errorf("the job is %+v", j)
	}
}

func (b *tab) scheduleActions(s *shop) {
	b.open("/schedules")
	b.does(`form[action$="newsletter%2Fweekly/pause"] button`, "The schedule newsletter/weekly is paused")
	b.looks()
	b.does(`form[action$="newsletter%2Fweekly/resume"] button`, "The schedule newsletter/weekly goes on")
	b.does(`form[action$="newsletter%2Fweekly/run-now"] button`, "The schedule newsletter/weekly has enqueued this job")
	b.want(`document.querySelector("#state .waiting")`)
	b.want(`location.pathname.startsWith("/jobs/")`)
}

// filters looks for jobs by what stands in them. Such a page can be sent to others by its address.
func (b *tab) filters(s *shop, scripts bool) {
	b.open("/queues/mail?state=dead")
	b.types("input[name=error]", "connection refused")
	b.types("input[name=worker]", "web-1:mail")
	b.types("input[name=since]", "1h")
	b.press(".filter button")
	b.want(`location.search.includes("state=dead") && document.querySelector("input[name=error]").value == "connection refused"`)
	b.want(`document.querySelectorAll("table.jobs tbody tr").length == 5 && document.querySelector(".filter ~ .hint")`)
	if scripts {
		b.want(`document.getElementById("live").hidden`) // otherwise each change would start a new search
	}
	b.looks()
	b.press(`.tabs a[href*="state=completed"]`)
	b.says("No jobs here.")
	b.press(".filter a")
	b.want(`location.search == "?state=completed" && !document.querySelector(".filter ~ .hint")`)
	b.open("/queues/mail")
	b.types("input[name=payload]", "Müller")
	b.press(".filter button")
	b.want(fmt.Sprintf(`[...document.querySelectorAll("table.jobs td:first-child a")].map((a) => a.textContent).join() == "%d"`, s.waiting))
}

func (b *tab) finds(s *shop) {
	b.open("/schedules")
	b.types("#find", "invo")
	b.arrives(pressing("\r"))
	b.want(`location.pathname == "/queues/invoices"`)
	b.types("#find", fmt.Sprint(s.dead))
	b.arrives(pressing("\r"))
	b.want(fmt.Sprintf(`location.pathname == "/jobs/%d"`, s.dead))
	b.types("#find", "e")
	b.arrives(pressing("\r"))
	b.want(`location.search == "?q=e" && [...document.querySelectorAll("#queues a.row")].every((a) => a.innerText.toLowerCase().includes("e"))`)
	b.looks()
}

func TestPeopleLogInAndOut(t *testing.T) {
	s := furnish(t, onSQLite(t))
	admin, line, err := server.NewToken("boss", "admin")
	s.check(err)
	reader, other, err := server.NewToken("reader", "read")
	s.check(err)
	tokens, err := server.ParseTokens(line + "\n" + other)
	s.check(err)
	url := serve(t, s, server.Options{Tokens: tokens})
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts=%v", scripts), func(t *testing.T) {
			b := newTab(t, url)
			b.scripts(scripts)
			b.open("/queues/mail?state=dead")
			b.want(`location.pathname == "/login"`)
			b.looks()
			b.expects("403")
			b.types("#token", "dibs_not-a-token-of-anybody")
			if status := b.press("form.login button"); status != 403 {
				b.Errorf("a wrong token leads to %d", status)
			}
			b.looks()
			b.expects()
			b.types("#token", reader)
			b.press("form.login button")
			b.want(`location.pathname + location.search == "/queues/mail?state=dead"`)
			b.want(`!document.querySelector('form[action$="/pause"]') && document.querySelector("#f-lease").disabled`)
			b.want(`document.cookie == ""`)
			b.looks()
			b.press(`form[action$="logout"] button`)
			b.want(`location.pathname == "/login"`)
			b.types("#token", admin)
			b.press("form.login button")
			b.says("boss")
			b.open("/queues/mail")
			b.does(`form[action$="/pause"] button`, "The queue mail is paused")
			b.does(`form[action$="/resume"] button`, "The queue mail goes on")
		})
	}
}
