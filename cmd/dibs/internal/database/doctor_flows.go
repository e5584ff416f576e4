package database

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/words"
)

// awaited finds the jobs that others come after and that nobody works, those with the most followers first.
func (d *medic) awaited(q *queueLook, facts []admin.Fact) {
	facts = slices.DeleteFunc(slices.Clone(facts), func(f admin.Fact) bool { return f.Name != "awaited" })
	slices.SortStableFunc(facts, func(a, b admin.Fact) int { return cmp.Compare(b.N, a.N) })
	alike := 0
	for _, f := range facts {
		holds := q.why.OfJob(&dibs.RawJob{Queue: f.About, Kind: f.Text, State: dibs.Waiting})
		i := slices.IndexFunc(holds, holdups.Hold.Lasts)
		if i < 0 {
			continue
		}
		if alike++; alike > maxAlike {
			return
		}
		report, next := d.wrong, "dibs workers"
		switch holds[i].Reason {
		case "paused":
			report, next = d.note, words.Command("dibs resume", f.About)
		case "no_worker":
			next = words.StartWorker(f.About)
			if s := slices.IndexFunc(q.stats, func(s admin.QueueStats) bool { return s.Queue == f.About }); s >= 0 && q.stats[s].OldestAge < d.maxWait {
				report = d.note // workers may just be started anew
			}
		case "no_worker_for_kind":
			next = words.Command("dibs ls", f.About, "--kind", words.ShellWord(f.Text))
		}
		report("awaited", next, "queue %s: %s for jobs of kind %s: %s", name(f.About), waiters(f), term.Clip(words.OneLine(f.Text), 40), holds[i].Plain())
	}
}

// waiters counts the followers of a fact, and names one.
func waiters(f admin.Fact) string {
	switch {
	case f.Of > 0:
		return fmt.Sprintf("at least %s, such as job %d, wait", words.Plural(int(f.N), "job"), f.ID)
	case f.N > 1:
		return fmt.Sprintf("%s, such as job %d, wait", words.Plural(int(f.N), "job"), f.ID)
	}
	return fmt.Sprintf("job %d waits", f.ID)
}

// kept words ended jobs that are kept beyond their time.
func (d *medic) kept(f admin.Fact) {
	n := words.Verb(f.N, "ended job that should have been deleted is kept", "ended jobs that should have been deleted are kept")
	if f.N >= f.Of {
		n = "at least " + n
	}
	d.note("kept", fmt.Sprintf("dibs flow %d", f.ID), "queue %s: %s, the first for %s, since jobs that come after them have not ended (job %d is one)", name(f.About), n, words.Roughly(f.Age), f.ID)
}
