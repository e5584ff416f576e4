package pagetest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// site is a server that can be stopped and started again at the same address, and that tells of its streams.
type site struct {
	testing.TB
	db            admin.Database
	address       string
	stop          func()
	opened, ended chan struct{} // get a value for each stream
}

func newSite(t testing.TB, db admin.Database) *site {
	s := &site{TB: t, db: db, address: "127.0.0.1:0", opened: make(chan struct{}, 1000), ended: make(chan struct{}, 1000)}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) start() {
	s.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.address = l.Addr().String()
	h := server.New(s.db, server.Options{})
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/live") {
			s.opened <- struct{}{}
			defer func() { s.ended <- struct{}{} }()
		}
		h.ServeHTTP(w, r)
	})}
	go func() { _ = web.Serve(l) }()
	s.stop = sync.OnceFunc(func() {
		if err := h.Close(); err != nil {
			s.Error(err)
		}
		_ = web.Close()
	})
}

// awaits waits for an event.
func (s *site) awaits(events <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-events:
	case <-time.After(patience):
		s.Fatal("there was no " + what)
	}
}

const on = `document.getElementById("live").classList.contains("on")`

// shows is an expression for the number of waiting jobs that the overview shows of a queue.
func shows(queue, waiting string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#queues tbody tr")].some((r) => r.querySelector("a").innerText == %q && r.querySelector("[data-label=Waiting]").innerText.trim() == %q)`, queue, waiting)
}

func TestOpenPagesFollowWhatHappens(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := furnish(t, db)
		site := newSite(t, db)
		b := newTab(t, "http://"+site.address)
		b.open("/")
		b.until(on)
		b.want(shows("import", "14"))
		is[string](b, `window.same = "the page was not loaded again"`)
		s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
		b.until(shows("import", "15"))
		s.enqueue(dibs.NewJob{Queue: "brand-new", Kind: "k"})
		b.until(shows("brand-new", "1"))
		b.want(`window.same`)

		// The job of an open page goes from waiting to its end.
		id := s.enqueue(dibs.NewJob{Queue: "one", Kind: "k"})
		b.open(fmt.Sprintf("/jobs/%d", id))
		b.until(`document.querySelector("#state .waiting")`)
		j := s.claim("one", "w", 1)[0]
		b.until(`document.querySelector("#state .running")`)
		lease := dibs.Lease{ID: j.ID, Token: j.Token, Progress: &dibs.Progress{Done: 3, Total: 4, Text: "three parts"}}
		_, err := s.Extend(s.Context(), []dibs.Lease{lease}, time.Hour)
		s.check(err)
		b.until(`document.querySelector("#progress").innerText.includes("three parts")`)
		s.finish(lease.Complete([]byte(`{"sent": true}`)))
		b.until(`document.querySelector("#state .completed")`)
		b.until(`document.querySelector('#acts form[action$="/requeue"]')`)
		b.until(`document.body.innerText.includes('"sent": true')`)
	})
}

func TestOpenPagesDisturbNobody(t *testing.T) {
	s := furnish(t, onSQLite(t))
	b := newTab(t, serve(t, s, server.Options{}))
	b.open("/queues/import")
	b.until(on)
	tab := func(n int) string {
		return fmt.Sprintf(`document.querySelector('.tabs a[href="?state=waiting"]').innerText == "waiting %d"`, n)
	}
	b.want(tab(14))
	b.click("#settings summary")
	b.types("#f-lease", "17")
	b.types("input[name=kind]", "half a na")
	s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
	b.until(tab(15))
	b.keys("me")
	b.want(`document.querySelector("input[name=kind]").value == "half a name" && document.querySelector("#f-lease").value == "17"`)
	b.want(`document.querySelector("#settings").open`)

	// What is open for a change of a job stays open, with what was written there.
	id := s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
	b.open(fmt.Sprintf("/jobs/%d", id))
	b.until(on)
	b.click("#acts details:nth-of-type(2) summary")
	b.types("input[name=priority]", "1")
	_, err := s.Edit(s.Context(), []int64{id}, admin.Edit{Priority: new(9)})
	s.check(err)
	s.claim("import", "w", 1000)
	b.until(`document.querySelector("#state .running")`)
	b.want(`document.querySelector("#acts details[open] input[name=priority]").value == "1"`)
	b.want(`document.activeElement.name == "priority"`)

	// A row that has the focus keeps it.
	b.open("/")
	b.until(on)
	b.keys("jj")
	row := is[string](b, "document.activeElement.innerText")
	s.enqueue(dibs.NewJob{Queue: "another", Kind: "k"})
	b.until(shows("another", "1"))
	b.want(fmt.Sprintf("document.activeElement.innerText == %q", row))
}

func TestAPageThatNobodySeesAsksForNothing(t *testing.T) {
	s := furnish(t, onSQLite(t))
	site := newSite(t, s)
	b := windowed.newTab(t, "http://"+site.address)
	b.open("/")
	b.until(on)
	site.awaits(site.opened, "stream")
	// A tab in front of the page hides it.
	other, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewWindow(false))
	defer cancel()
	if err := chromedp.Do(other, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	site.awaits(site.ended, "end of the stream")
	b.want("document.hidden")
	s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
	if _, err := chromedp.CallBrowser(b.ctx, target.ActivateTarget, target.ActivateTargetParams{TargetID: chromedp.FromContext(b.ctx).Target.TargetID}); err != nil {
		t.Fatal(err)
	}
	site.awaits(site.opened, "stream again")
	b.until(shows("import", "15"))
	b.until(on)
	b.open("/queues/mail")
	site.awaits(site.ended, "end of the stream of a page that was left")
}

func TestPagesOutliveARestartOfTheServer(t *testing.T) {
	s := furnish(t, onSQLite(t))
	site := newSite(t, s)
	b := newTab(t, "http://"+site.address)
	b.open("/")
	b.until(on)
	b.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
	site.stop()
	b.until("!" + on)
	s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
	site.start()
	b.until(on)
	b.until(shows("import", "15"))
	b.expects()
}

func TestTimesAreThoseOfTheReader(t *testing.T) {
	s := furnish(t, onSQLite(t))
	b := newTab(t, serve(t, s, server.Options{}))
	b.scripts(false)
	path := fmt.Sprintf("/jobs/%d", s.completed)
	b.open(path)
	b.want(`[...document.querySelectorAll("time")].every((t) => t.title.endsWith(" UTC") && t.innerText.endsWith(" ago"))`)
	b.scripts(true)
	for zone, hours := range map[string]int{"Asia/Tokyo": 9, "America/Phoenix": -7} {
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		b.open(path)
		created := s.job(s.completed).CreatedAt.In(time.FixedZone("", hours*3600))
		title := is[string](b, `document.querySelector("#life time").title`)
		if !strings.Contains(title, created.Format("3:04:05")) || !strings.Contains(title, created.Format("2")) {
			t.Errorf("in %s, %v is %q", zone, created, title)
		}
		b.want(`document.querySelector("#life time").innerText.endsWith(" ago")`)
	}
}
