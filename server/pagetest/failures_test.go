package pagetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs"
)

// die has n jobs die, and returns their ids.
func (s *shop) die(queue, kind, text string, n int) (ids []int64) {
	s.Helper()
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: queue, Kind: kind}
	}
	s.enqueue(jobs...)
	var outcomes []dibs.Outcome
	for i, j := range s.claim(queue, "web-1", n) {
		lease := dibs.Lease{ID: j.ID, Token: j.Token}
		outcomes = append(outcomes, lease.Die(fmt.Sprintf("%s %d", text, i)))
		ids = append(ids, j.ID)
	}
	s.check(s.Finish(s.Context(), outcomes))
	return ids
}

// A group of failures is put back or deleted by hand: a large one goes on by itself where scripts may, and else by a
// button.
func TestAGroupOfFailuresIsChangedByHand(t *testing.T) {
	withAndWithoutScripts(t, func(b *tab, s *shop, scripts bool) {
		n := 4300
		ids := s.die("bulk", "k", "boom", n)
		s.die("small", "k", "bang", 3)
		time.Sleep(1100 * time.Millisecond) // a page may show queues as they were a second ago
		b.open("/failures?queue=bulk")
		b.says("boom …")
		b.want(`document.querySelectorAll("#groups tbody tr").length == 1 && document.querySelector(".sparks path")`)
		b.click("#groups summary")
		b.says("Last died")
		if status := b.press(`form[action$="failures/requeue"] button`); status != 200 {
			t.Errorf("the question: %d", status)
		}
		b.says("that died from")
		b.looks()
		if s.job(ids[0]).State != dibs.Dead {
			t.Error("jobs are put back before that is confirmed")
		}
		b.press("main form button")
		b.untilDone("jobs wait again.", func() {
			if !scripts && is[bool](b, `!!document.querySelector("form[data-go]")`) {
				b.says(" left.")
				b.looks()
				b.press("form[data-go] button")
			}
		})
		b.want(`location.pathname + location.search == "/failures?queue=bulk"`)
		if first, last := s.job(ids[0]), s.job(ids[n-1]); first.State != dibs.Waiting || last.State != dibs.Waiting {
			t.Errorf("the jobs are %s and %s", first.State, last.State)
		}

		b.open("/failures?queue=small")
		b.press(`form[action$="failures/prune"] button`)
		b.looks()
		b.does("main form button.danger", "3 jobs are deleted.")
	})
}

// untilDone waits until the page says that something was done, whichever pages come before that.
func (b *tab) untilDone(text string, meanwhile func()) {
	b.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		meanwhile()
		// The evaluation fails while the page is being left.
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("[role=status]")?.innerText ?? ""`))
		if err == nil && strings.Contains(shown, text) {
			return
		}
		select {
		case <-ticker.C:
		case <-b.ctx.Done():
			b.Fatalf("the page does not say %q", text)
		}
	}
}
