package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The page of a job that does not start says why, and which jobs hold the places that it waits for.
func TestAJobSaysWhoBlocksIt(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		yes, one := true, 1
		for name, c := range map[string]dibs.QueueChange{"strict": {Strict: &yes}, "..": {Concurrency: &one}, "paused": {Paused: &yes}} {
			if _, err := db.ChangeQueue(t.Context(), name, c.Apply); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Register(t.Context(), dibs.WorkerInfo{ID: dibs.Token{1}, Name: "w", Queues: []string{"groups", "strict", "..", "paused"}, Concurrency: 9, State: dibs.WorkerWorking}); err != nil {
			t.Fatal(err)
		}
		claim := func(queue string) *dibs.RawJob {
			t.Helper()
			jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w<b>", N: 1, Lease: time.Hour})
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			return jobs[0]
		}
		b := newBrowser(t, serve(t, db))
		page := func(id int64) string {
			t.Helper()
			text := b.sees(fmt.Sprintf("/jobs/%d", id))
			_, places, _ := strings.Cut(text, `id="places"`)
			places, _, _ = strings.Cut(places, `id="progress"`)
			_, why, _ := strings.Cut(text, `id="alarms"`)
			why, _, _ = strings.Cut(why, `id="places"`)
			return why + "\n" + places
		}
		has := func(text string, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("without %q: %s", part, text)
				}
			}
		}
		job := func(queue, group string) dibs.NewJob { return dibs.NewJob{Queue: queue, Kind: "k", Group: group} }

		groups := enqueue(t, db, job("groups", "a&b"), job("groups", "a&b"), job("groups", "other"))
		claim("groups")
		strict := enqueue(t, db, job("strict", "g"), job("strict", "g"))
		if err := db.Finish(t.Context(), []dibs.Outcome{claim("strict").Lease().RetryAfter(time.Hour, "later")}); err != nil {
			t.Fatal(err)
		}
		limited := enqueue(t, db, job("..", ""), job("..", ""))
		claim("..")
		others := enqueue(t, db, job("paused", ""), dibs.NewJob{Queue: "paused", Kind: "k", Delay: time.Hour}, job("nobody", ""))

		has(page(groups[1]), "waits for its turn in its group (1 at a time)", fmt.Sprintf(`jobs/%d"`, groups[0]), "w&lt;b&gt;", "group=a%26b")
		if text := page(groups[1]); strings.Contains(text, fmt.Sprintf(`jobs/%d"`, groups[2])) {
			t.Errorf("a job of another group: %s", text)
		}
		has(page(strict[1]), "waits for its turn in its group", fmt.Sprintf(`jobs/%d"`, strict[0]), "the order in the group is strict")
		has(page(limited[1]), "limit of 1 job at once is reached", fmt.Sprintf(`jobs/%d"`, limited[0]), "queues/~..?state=running")
		has(page(others[0]), "the queue is paused")
		if text := page(others[1]); strings.Contains(text, "paused") {
			t.Errorf("a job whose start has not come: %s", text)
		}
		has(page(others[2]), "no worker is registered for the queue")
		if text := page(others[2]); strings.Contains(text, "dibs work") {
			t.Errorf("a command: %s", text)
		}
	})
}
