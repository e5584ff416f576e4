package pagetest

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/dibs-queue/dibs/server"
)

func TestThePagesNeedNoMouse(t *testing.T) {
	s := furnish(t, onSQLite(t))
	b := newTab(t, serve(t, s, server.Options{}))
	goes := func(keys, path string) {
		t.Helper()
		b.arrives(pressing(keys))
		if got := is[string](b, "location.pathname"); got != path {
			t.Errorf("%q leads to %s, not %s", keys, got, path)
		}
	}
	b.open("/queues/mail")
	goes("gw", "/workers")
	goes("gs", "/schedules")
	goes("gc", "/changes")
	goes("gq", "/")
	goes("?", "/keys")
	goes("gq", "/")
	b.keys("/")
	b.want(`document.activeElement.id == "find" && document.activeElement.value == ""`)
	b.keys("jgq?") // in a field, letters are letters
	b.want(`document.activeElement.value == "jgq?" && location.pathname == "/"`)
	b.keys(kb.Escape)

	b.open("/")
	second := is[string](b, `document.querySelectorAll("tbody a.row")[1].getAttribute("href")`)
	b.keys("jjjkk")
	b.keys("j")
	b.want(`document.activeElement.getAttribute("href") == "` + second + `"`)
	b.want(`getComputedStyle(document.activeElement).outlineStyle != "none"`)
	goes("\r", second[1:])
	b.keys("j")
	b.want(`document.activeElement.matches("table.jobs td a")`)

	// The first thing that Tab reaches leads past the header; what has the focus can always be seen.
	b.open("/queues/mail")
	b.keys("\t")
	b.want(`document.activeElement.className == "skip" && document.activeElement.getBoundingClientRect().left >= 0`)
	b.keys("\r")
	b.want(`document.activeElement.id == "main"`)
	b.open("/queues/mail")
	seen := map[string]bool{}
	for range 200 {
		b.keys("\t")
		at := is[string](b, `(() => {
			const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
			if (e == document.body) return "";
			if (style.outlineStyle == "none" || !box.width) throw new Error(e.outerHTML + " has the focus, and nobody sees it");
			return e.outerHTML;
		})()`)
		if at == "" || seen[at] && len(seen) > 40 {
			break
		}
		seen[at] = true
	}
	if len(seen) < 40 {
		t.Errorf("Tab reaches %d things", len(seen))
	}
	b.scripts(false)
	b.open("/")
	b.keys("\t\t")
	b.want(`document.activeElement.matches(".logo")`)
}
