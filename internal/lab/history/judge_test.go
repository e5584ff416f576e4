package history_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

func TestPromisesAreThoseOfTheGuarantees(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/guarantees.md")
	must(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, v := range history.Judge(history.Evidence{}) {
		want := fmt.Sprintf("%d. **%s**", v.Number, v.Promise)
		if v.Promise == history.FairTurns {
			want = "**" + v.Promise + "**"
		}
		if !strings.Contains(page, want) {
			t.Errorf("docs/guarantees.md does not say %q", want)
		}
	}
}

func TestRecoveriesAreMeasuredFromTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.enqueue(0, 1, 2)
	b.claim("w1", 10, 1, 1, 2) // the lease ends at 110
	b.extend("w1", 60, 100, 10, 2)
	b.claim("w2", 150, 2, 1)
	b.claim("w2", 190, 2, 2)
	got, _ := history.Recoveries(b.evidence())
	if len(got) != 2 || got[0] < 25*time.Millisecond || got[0] > 35*time.Millisecond || got[1] != 40*time.Millisecond {
		t.Errorf("got %v, want about 30ms and exactly 40ms", got)
	}
}

// Row 1 of an adopted table is claimed twice, and the table does not number attempts.
func TestRowsOfAdoptedTables(t *testing.T) {
	t.Parallel()
	released := func(attempt int, counts bool) func(*book) { // the job may have 5 attempts
		return func(b *book) {
			b.ReleasesCount = counts
			b.claim("w1", 10, attempt, 1)
			b.finish("w1", 50, dibs.EndRelease, 10, 1)
		}
	}
	elsewhere := func(b *book, at int) { b.operatorCall(history.Ended, at, 1) }
	for _, c := range []struct {
		name  string
		ends  int
		write func(*book)
		says  string // part of the message; empty: no promise is broken
	}{
		{"it is completed by the second", 1, func(b *book) {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 30, dibs.EndRetry, 10, 1)
			b.claim("w2", 50, 1, 1)
			b.finish("w2", 70, dibs.EndCompleted, 50, 1)
		}, ""},
		{"two have it at once", 0, func(b *book) {
			b.claim("w1", 10, 1, 1)
			b.claim("w2", 50, 1, 1)
		}, "it had two owners"},
		{"another program ends it", 1, func(b *book) {
			b.claim("w1", 10, 1, 1)
			elsewhere(b, 30)
			setRefused(b.finish("w1", 50, dibs.EndCompleted, 10, 1), 1)
		}, ""},
		{"an outcome is accepted after another program has ended it", 1, func(b *book) {
			b.claim("w1", 10, 1, 1)
			elsewhere(b, 30)
			b.finish("w1", 50, dibs.EndRetry, 10, 1)
		}, "was accepted after another program"},
		{"it is given out after another program has ended it", 1, func(b *book) {
			elsewhere(b, 30)
			b.claim("w1", 50, 1, 1)
		}, "was given out after another program"},
		{"it ends twice", 2, func(b *book) {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 50, dibs.EndCompleted, 10, 1)
		}, "has ended 2 times"},
		{"it does not end", 0, func(b *book) {
			b.claim("w1", 10, 1, 1)
			b.finish("w1", 50, dibs.EndCompleted, 10, 1)
		}, "has not ended, though that was acknowledged"},
		{"its last attempt is released, which counts", 1, released(5, true), ""},
		{"its last attempt is released, which does not count", 1, released(5, false), "no outcome that ends it was accepted"},
		{"an earlier attempt than the last is released, which counts", 1, released(4, true), "no outcome that ends it was accepted"},
		{"it ends without an outcome", 1, released(1, false), "no outcome that ends it was accepted"},
		{"a claim without an answer may have used the last attempt", 1, func(b *book) {
			released(4, true)(b)
			removeAnswer(b.claim("w2", 60, 5, 1))
		}, ""},
	} {
		b := newBook()
		c.write(b)
		b.Effects = map[int64]int{1: c.ends}
		messages := strings.Join(history.Broken(history.Owned(b.evidence())), "; ")
		if !strings.Contains(messages, c.says) || c.says == "" && messages != "" {
			t.Errorf("%s: it says %q, want %q", c.name, messages, c.says)
		}
	}
}

func TestAJobLeftBehindIsStillLinearizable(t *testing.T) {
	t.Parallel()
	for _, state := range []dibs.State{dibs.Waiting, dibs.Blocked} {
		b := newBook()
		b.enqueue(0, 1)
		b.atEnd(state, 0, 1)
		if checked, _ := checkOrders(t, b.evidence()); checked != 1 {
			t.Errorf("%s: %d checked", state, checked)
		}
	}
}

// BenchmarkJudge judges a quarter of a million jobs: each is enqueued, claimed,
// extended and finished, in batches of ten, by eight workers, a third of them in groups.
func BenchmarkJudge(b *testing.B) {
	e := long(250_000)
	b.ReportAllocs()
	for b.Loop() {
		for _, v := range history.Judge(e) {
			if len(v.Broken) > 0 {
				b.Fatalf("promise %d: %d broken", v.Number, len(v.Broken))
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/job-operation")
}

func long(jobs int) history.Evidence {
	b := newBook()
	for first := 1; first <= jobs; first += 10 {
		var ids []int64
		for id := first; id < first+10; id++ {
			ids = append(ids, int64(id))
		}
		worker := fmt.Sprintf("w%d", first/10%8)
		at := first
		calls := []*history.Call{b.enqueue(at, ids...), b.claim(worker, at+20, 1, ids...)}
		for i := range ids {
			for _, c := range calls {
				group := ""
				if i%3 == 0 {
					group = fmt.Sprintf("g%d", ids[i])
				}
				if c.New != nil {
					c.New[i].Group = group
				} else {
					c.Jobs[i].Group = group
					c.Jobs[i].RunAt = ms(at)
					c.Jobs[i].Token = token(at/10 + 1)
				}
			}
		}
		x := b.extend(worker, at+30, 100, 0, 0)
		x.Leases = nil
		f := b.finish(worker, at+40, dibs.EndCompleted, 0, ids...)
		for i, id := range ids {
			f.Outcomes[i].Token = token(at/10 + 1)
			x.Leases = append(x.Leases, dibs.Lease{ID: id, Token: token(at/10 + 1)})
		}
		b.atEnd(dibs.Completed, 1, ids...)
	}
	return b.evidence()
}
