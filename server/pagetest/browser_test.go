// Package pagetest looks at the pages of package server with Chromium, as people do.
package pagetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a test waits for what has to come, however slow the machine is.
const patience = 10 * time.Minute

// browser is Chromium, or what is built from it. It runs once for all tests.
// Each of its tabs has cookies and a cache for itself.
type browser struct {
	programs []string // the first that is there is used
	once     sync.Once
	ctx      context.Context
	err      error
}

// windowed is the browser that people use. A tab of it hides those behind it.
var windowed = browser{programs: []string{"chromium", "chromium-browser", "google-chrome"}}

// windowless shows the same pages with half the CPU.
var windowless = browser{programs: append([]string{"chromium-headless-shell"}, windowed.programs...)}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, c := range []*browser{&windowed, &windowless} {
		if c.ctx == nil {
			continue
		}
		if err := chromedp.Cancel(c.ctx); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "Chromium has not ended well:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// program is that of the browser. Where there is none the test is skipped, or fails if CI is set.
func (c *browser) program(t testing.TB) string {
	t.Helper()
	for _, name := range c.programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	needs.Missing(t, "there is no Chromium; scripts/languages.sh installs it")
	return ""
}

// start starts it with an empty profile, and without what it would do by itself on the network.
func (c *browser) start(program string) {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
	}
	for _, name := range []string{
		"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-extensions", "disable-dev-shm-usage",
		"disable-background-timer-throttling", "disable-renderer-backgrounding",
	} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
	c.ctx, _ = chromedp.NewContext(ctx)
	c.err = chromedp.Do(c.ctx)
}

// tab is a tab of the browser, at the site of a server.
type tab struct {
	testing.TB
	root string
	ctx  context.Context

	mu       sync.Mutex
	problems []string // what the console and the network have reported
	expected []string // parts of problems that are no fault of the page
	requests map[network.RequestID]*request
}

// request is one that the browser has sent.
type request struct {
	url    string
	status int64
	bytes  float64 // of the answer, as transferred
}

// newTab opens a tab. What goes wrong in it is an error of the test.
func newTab(t testing.TB, root string) *tab {
	t.Helper()
	return windowless.newTab(t, root)
}

func (c *browser) newTab(t testing.TB, root string) *tab {
	t.Helper()
	program := c.program(t)
	c.once.Do(func() { c.start(program) })
	if c.err != nil {
		t.Fatalf("Chromium does not start: %v", c.err)
	}
	b := &tab{TB: t, root: root, requests: map[network.RequestID]*request{}}
	whole, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	if err := chromedp.Do(whole); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(whole, patience)
	b.ctx = ctx
	call(b, network.Enable, network.EnableParams{})
	call(b, audits.Enable, cdp.Empty{})
	b.size(1280)
	t.Cleanup(func() {
		b.calm()
		if t.Failed() {
			if text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`)); err == nil {
				t.Logf("the tab shows %.600s", text)
			}
		}
		stop()
		cancel()
	})
	return b
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// hear notes what the page does and what goes wrong.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := func(format string, args ...any) {
		b.problems = append(b.problems, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem("exception: %+v", e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		problem("console: %s %s", e.Type, e.Args[0].Value)
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelVerbose {
			problem("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			problem("content security policy: %+v", d)
		}
	case *page.EventJavascriptDialogOpening:
		problem("dialog: %s", e.Message)
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *network.EventRequestWillBeSent:
		b.requests[e.RequestID] = &request{url: e.Request.URL}
		if u, err := url.Parse(e.Request.URL); err != nil || !strings.HasPrefix(e.Request.URL, b.root+"/") && u.Scheme != "data" {
			problem("request of %s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		if r := b.requests[e.RequestID]; r != nil {
			r.status = e.Response.Status
		}
		if e.Response.Status >= 400 {
			problem("status %d of %s", e.Response.Status, e.Response.URL)
		}
	case *network.EventLoadingFinished:
		if r := b.requests[e.RequestID]; r != nil {
			r.bytes = e.EncodedDataLength
		}
	case *network.EventLoadingFailed:
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			problem("loading failed: %s %s", e.ErrorText, e.BlockedReason)
		}
	}
}

// calm reports the problems so far, and forgets them.
func (b *tab) calm() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		if !slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(p, part) }) {
			b.Errorf("problem in the browser: %s", p)
		}
	}
	b.problems = nil
}

// expects has problems that contain one of some texts be none, from now on.
func (b *tab) expects(parts ...string) {
	b.Helper()
	b.calm()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = parts
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// arrives does what leads to another page, waits for that, and returns its status.
func (b *tab) arrives(actions ...chromedp.Action[chromedp.Void]) int64 {
	b.Helper()
	answer, err := chromedp.RunResponse(b.ctx, actions...)
	if err != nil {
		b.Fatal(err)
	}
	return answer.Status
}

// open loads a page.
func (b *tab) open(path string) int64 {
	b.Helper()
	return b.arrives(chromedp.Navigate(b.root + path))
}

// press clicks what leads to another page, and waits for that.
func (b *tab) press(selector string) int64 {
	b.Helper()
	return b.arrives(clicking(selector))
}

// clicking clicks what has come, if an open page has just replaced what was found before.
func clicking(selector string) chromedp.Action[chromedp.Void] {
	click := chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible)
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			_, err := click(ctx, t)
			if err == nil || !strings.Contains(err.Error(), "Could not find node") {
				return err
			}
		}
	})
}

// click clicks what stays on the page.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(clicking(selector))
}

// types writes into a field in place of what is there.
func (b *tab) types(selector, text string) {
	b.Helper()
	b.do(chromedp.Focus(chromedp.CSS(selector), chromedp.NodeVisible))
	is[bool](b, "document.activeElement.select() || true")
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// keys presses keys, wherever the focus is.
func (b *tab) keys(keys string) {
	b.Helper()
	b.do(pressing(keys))
}

// pressing presses keys as a keyboard does: a page that takes a key for itself keeps it from being written.
func pressing(keys string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, r := range keys {
			events := kb.Encode(r)
			down, up := events[0], events[len(events)-1]
			if len(events) == 3 {
				down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			}
			for _, e := range []*input.DispatchKeyEventParams{down, up} {
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// is evaluates an expression of JavaScript.
func is[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// promised evaluates a promise.
func promised[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// want reports an error unless an expression is true.
func (b *tab) want(expression string) {
	b.Helper()
	if !is[bool](b, "!!("+expression+")") {
		b.Errorf("%s is not so at %s", expression, is[string](b, "location.pathname + location.search"))
	}
}

// says reports an error unless the page shows a text.
func (b *tab) says(text string) {
	b.Helper()
	if shown := is[string](b, "document.body.innerText"); !strings.Contains(shown, text) {
		b.Errorf("there is no %q at %s", text, is[string](b, "location.pathname"))
	}
}

// until waits for an expression to become true, by what changes in the page.
func (b *tab) until(expression string) {
	b.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[chromedp.Void]("!!("+expression+")", chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(0)))
	if err != nil {
		b.Fatalf("%s: %v", expression, errors.Join(err, context.Cause(b.ctx)))
	}
}

// size sets the width of the window.
func (b *tab) size(width int64) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
}

// theme is light or dark.
func (b *tab) theme(name string) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// scripts allows or forbids those of pages.
func (b *tab) scripts(allowed bool) {
	b.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed})
}
