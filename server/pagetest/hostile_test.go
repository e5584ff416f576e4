package pagetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// evil are texts that may be names, and that do harm where a page does not escape them or leaves them no room.
var evil = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)' autofocus onfocus='alert(1)`,
	`</title></pre></textarea><svg/onload=alert(1)>`,
	`javascript:alert(1)`,
	`{{.}}${alert(1)}`,
	`../a?b=c&d;e#f%2Fg+h%`,
	strings.Repeat("w", 200),
	strings.Repeat("漢字", 40),
	"مرحبا 👩‍👩‍👧‍👦 שלום",
}

// worse may not be names: characters that turn the direction, of terminals, and broken ones.
const worse = "\u202egnp.exe\u2066 \x1b[31mred\x1b[0m \u0000 \u2028 a\tb\r\nc <b>bold</b> "

// watched opens a tab in which a page cannot call alert without its being noticed.
func watched(t testing.TB, url string) *tab {
	b := newTab(t, url)
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.alerted = 0; window.alert = () => { alerted++; }`})
	return b
}

// harmless reports what a hostile text has done to the page that is open.
func (b *tab) harmless() {
	b.Helper()
	b.want("alerted === 0 && document.scripts.length == 1 && !document.querySelector('main img, main script, main b b, [onload], [onerror], [onfocus]')")
	b.want(`!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b\u2028]/.test(document.documentElement.outerHTML)`)
	is[bool](b, `document.querySelectorAll("details").forEach((d) => d.open = true) || true`)
	b.fits()
}

// evil fills the queues that have the evil texts as their names, and returns the ids of the jobs.
func (s *shop) evil() (jobs []int64) {
	for i, text := range evil {
		raw, err := json.Marshal(map[string]any{text: []string{text, worse}})
		s.check(err)
		large, long := "x", worse+text
		if i == 0 { // how much it is does not depend on what it says
			large, long = strings.Repeat("x", 1<<20-2), strings.Repeat(long, 64<<10/len(long))
		}
		last := s.enqueue(
			dibs.NewJob{Queue: text, Kind: text, Group: text, UniqueKey: text, Payload: raw, Metadata: raw},
			dibs.NewJob{Queue: text, Kind: "k", Payload: large},
			dibs.NewJob{Queue: text, Kind: text, Payload: raw},
			dibs.NewJob{Queue: text, Kind: text})
		s.enqueue(dibs.NewJob{Queue: text, Kind: text, After: []dibs.Dep{{ID: last}}})
		s.check(s.ChangeGroup(s.Context(), text, text, dibs.GroupChange{Limit: new(1)}.Apply))
		jobs = append(jobs, last-3, last-2, last-1, last)
		claimed := s.claim(text, text, 4)
		one, two := dibs.Lease{ID: claimed[0].ID, Token: claimed[0].Token}, dibs.Lease{ID: claimed[1].ID, Token: claimed[1].Token}
		s.finish(one.Retry(long))
		s.finish(dibs.Lease{ID: claimed[3].ID, Token: claimed[3].Token}.Die(long))
		s.finish(two.Complete(raw))
		three := dibs.Lease{ID: claimed[2].ID, Token: claimed[2].Token, Progress: &dibs.Progress{Done: 1, Text: worse + text}}
		_, err = s.Extend(s.Context(), []dibs.Lease{three}, time.Hour)
		s.check(err)
		s.check(s.Register(s.Context(), dibs.WorkerInfo{
			ID: dibs.Token{byte(i + 1)}, Name: text, Host: text, Queues: []string{text}, Kinds: []string{text}, Concurrency: 1, State: dibs.WorkerWorking,
		}))
		s.check(s.NoteChange(s.Context(), admin.Change{Who: text + worse, Did: text, What: text + worse, N: 1}))
		_, err = s.SetSchedule(s.Context(), dibs.Schedule{Name: text, Spec: "@daily", Queue: text, Kind: text})
		s.check(err)
	}
	return jobs
}

func TestHostileTextDoesNothing(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		if strings.HasSuffix(t.Name(), "/postgres") {
			needs.Night(t, "the pages are the same for all databases, and server's tests compare what those give")
		}
		s := &shop{TB: t, Database: db}
		jobs := s.evil()
		b := watched(t, serve(t, db, server.Options{}))
		for _, path := range []string{"/", "/failures", "/workers", "/schedules", "/changes"} {
			b.open(path)
			b.harmless()
		}
		b.open("/failures")
		b.press(`form[action$="failures/prune"] button`)
		b.harmless()
		for _, id := range jobs {
			b.open(fmt.Sprintf("/jobs/%d", id))
			b.harmless()
		}
		for i, text := range evil {
			b.open("/")
			name, err := json.Marshal(text)
			s.check(err)
			follow := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll("tbody a.row")].find((a) => a.textContent == %s).click()`, name))
			if status := b.arrives(follow); status != 200 {
				t.Errorf("the page of %q: %d", text, status)
			}
			b.want(fmt.Sprintf(`document.querySelector("h1").firstChild.textContent == %s && document.title == %[1]s + " · dibs"`, name))
			b.want(`document.querySelectorAll("table.jobs tbody tr").length >= 2`)
			if i%3 == 0 {
				b.harmless()
				b.groupsHarmless(string(name))
				b.does(`form[action$="/pause"] button`, "is paused")
				b.harmless()
				b.does(`form[action$="/resume"] button`, "goes on")
			}
			b.types("input[name=kind]", text)
			b.press(".filter button")
			b.want(fmt.Sprintf(`document.querySelector("input[name=kind]").value == %s`, name))
			b.expects("404")
			b.types("#find", text+"?")
			b.arrives(pressing("\r"))
			b.harmless()
			b.expects()
		}
	})
}

// groupsHarmless looks at the groups of the queue that is open, whose only one has the name of the queue, in JSON.
func (b *tab) groupsHarmless(name string) {
	b.Helper()
	b.press(`main a[href*="groups?queue="]`)
	b.want(fmt.Sprintf(`document.querySelector("tbody a.row").textContent == %s`, name))
	b.harmless()
	b.press("h1 a")
}

func TestTenThousandQueuesAreShown(t *testing.T) {
	s := &shop{TB: t, Database: onSQLite(t)}
	var jobs []dibs.NewJob
	for i := range 10_000 {
		jobs = append(jobs, dibs.NewJob{Queue: fmt.Sprintf("tenant-%05d", i), Kind: "k"})
	}
	s.enqueue(jobs...)
	b := watched(t, serve(t, s, server.Options{}))
	b.open("/")
	b.harmless()
	b.want(`document.querySelectorAll("#queues tbody tr").length == 300 && document.body.innerText.includes("other queues can be found by name")`)
	b.types("#find", "tenant-09999")
	b.arrives(pressing("\r"))
	b.want(`document.querySelector("h1").innerText.includes("tenant-09999")`)
}
