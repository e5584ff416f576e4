package pagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

var widths = []int64{390, 1280, 2560}

// sticksOut lists what sticks out of the window to the right, and on a telephone also tables that scroll.
const sticksOut = `(() => {
	const wrong = [];
	const wide = document.documentElement.clientWidth;
	if (document.scrollingElement.scrollWidth > innerWidth) wrong.push("the page is " + document.scrollingElement.scrollWidth + " wide");
	const scrolls = (e) => { for (; e; e = e.parentElement) if (e.matches(".scroll, .tabs, pre")) return true; };
	for (const e of document.querySelectorAll("body *")) {
		const box = e.getBoundingClientRect();
		if (box.width && box.right > wide + 1 && !scrolls(e) && !e.closest("svg")) wrong.push(e.tagName + "." + e.className + " ends at " + box.right + ": " + e.textContent.slice(0, 40));
	}
	if (innerWidth < 500) for (const e of document.querySelectorAll(".scroll"))
		if (e.scrollWidth > e.clientWidth) wrong.push("a table of " + e.scrollWidth + " scrolls");
	return wrong.slice(0, 5).join("\n");
})()`

// looks checks the page that is open at all widths, light and dark.
func (b *tab) looks() {
	b.Helper()
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		if ground := is[string](b, "getComputedStyle(document.documentElement).backgroundColor"); strings.HasPrefix(ground, "rgb(2") != (theme == "light") {
			b.Errorf("the ground of a %s page is %s", theme, ground)
		}
		b.fits()
	}
}

// fits checks that nothing sticks out of the window at any width.
func (b *tab) fits() {
	b.Helper()
	for _, width := range widths {
		b.size(width)
		if wrong := is[string](b, sticksOut); wrong != "" {
			b.Errorf("%s at %d px: %s", is[string](b, "location.pathname + location.search"), width, wrong)
		}
	}
	b.size(1280)
}

// withAndWithoutScripts runs a test on each database, in a browser with scripts and in one without. The pages
// are the same for all databases, so that by day each has one browser.
func withAndWithoutScripts(t *testing.T, f func(b *tab, s *shop, scripts bool)) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := furnish(t, db)
		url := serve(t, db, server.Options{})
		for _, scripts := range []bool{true, false} {
			t.Run(fmt.Sprintf("scripts=%v", scripts), func(t *testing.T) {
				if scripts != strings.Contains(t.Name(), "/sqlite/") {
					needs.Night(t, "the other database's pages are tried so")
				}
				b := newTab(t, url)
				b.scripts(scripts)
				f(b, s, scripts)
			})
		}
	})
}

func TestEveryPageFitsTheWindow(t *testing.T) {
	withAndWithoutScripts(t, func(b *tab, s *shop, scripts bool) {
		for _, path := range s.pages() {
			if status := b.open(path); status != 200 {
				b.Errorf("%s: %d", path, status)
			}
			is[bool](b, `document.querySelectorAll("details").forEach((d) => d.open = true) || true`)
			b.looks()
		}
		b.expects("404")
		for _, path := range []string{"/jobs/999999", "/queues/none", "/find?q=none"} {
			if status := b.open(path); status != 404 {
				b.Errorf("%s: %d", path, status)
			}
			b.looks()
		}
		b.expects()
	})
}
