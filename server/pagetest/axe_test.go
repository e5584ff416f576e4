package pagetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// axeCore is the script of axe-core, which npm installs; or why it cannot.
var axeCore = sync.OnceValues(func() (script, problem string) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err.Error()
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err.Error()
		}
	}
	install := exec.CommandContext(context.Background(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", "npm cannot install axe-core: " + err.Error() + "\n" + string(out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		return "", err.Error()
	}
	return string(text), ""
})

// obstacles are what axe-core finds, a line each.
const obstacles = `axe.run(document, { rules: { "target-size": { enabled: true } } }).then((found) =>
	found.violations.flatMap((v) => v.nodes.map((n) => v.impact + " " + v.id + ": " + n.failureSummary + " " + n.html.slice(0, 200))).join("\n"))`

// accessible reports what axe-core finds on the page that is open: dark on a telephone if asked, else light on a desk,
// at night in all four ways.
func (b *tab) accessible(dark bool) {
	b.Helper()
	script, problem := axeCore()
	if problem != "" {
		needs.Missing(b, "%s", problem)
	}
	b.do(chromedp.Evaluate[chromedp.Void](script))
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		for _, width := range []int64{390, 1280} {
			if !needs.AtNight() && ((theme == "dark") != dark || (width == 390) != dark) {
				continue
			}
			b.size(width)
			found := promised[string](b, obstacles)
			for line := range strings.SplitSeq(found, "\n") {
				if line != "" {
					b.Errorf("%s, %s, %d px: %s", is[string](b, "location.pathname+location.search"), theme, width, line)
				}
			}
		}
	}
	b.theme("light")
	b.size(1280)
}

func TestAxeFindsNothing(t *testing.T) {
	s := furnish(t, onSQLite(t))
	b := newTab(t, serve(t, s, server.Options{}))
	for i, path := range s.pages() { // pages of one kind are beside each other
		b.open(path)
		is[bool](b, `document.querySelectorAll("details").forEach((d) => d.open = true) || true`)
		b.accessible(i%2 == 0)
	}
	b.open("/queues/search")
	b.click("#settings summary")
	b.types("#f-lease", "45s")
	b.press("#settings form button")
	b.accessible(false)
	b.press("main form button")
	b.accessible(false)
	b.open("/failures")
	b.press(`form[action$="failures/prune"] button`)
	b.accessible(false)
	b.expects("404")
	b.open("/jobs/999999")
	b.accessible(false)
	b.expects()
}
