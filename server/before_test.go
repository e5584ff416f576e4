package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// furnishBefore enqueues jobs that another job comes after, and completes the first of them. Every third of them is in
// the queue "theirs", all others are in "mine".
func furnishBefore(t *testing.T, db admin.Database, n int) (last int64) {
	t.Helper()
	jobs := make([]dibs.NewJob, n+1)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "mine", Kind: "page", Ref: "page"}
		if i%3 == 2 {
			jobs[i].Queue = "theirs"
		}
	}
	jobs[n] = dibs.NewJob{Queue: "mine", Kind: "bind", After: []dibs.Dep{{Ref: "page"}}}
	done, err := db.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	first, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mine", Worker: "w", N: 1})
	if err == nil {
		err = db.Finish(t.Context(), []dibs.Outcome{first[0].Lease().Complete(json.RawMessage(`{"pages":3}`))})
	}
	if err == nil {
		_, err = db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mine", Worker: "w", N: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	return done[n].ID
}

func (g *guarded) before(token, path string) (status int, body string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), "GET", g.url+"/v1/jobs/"+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The jobs before a job come in pages, without tokens, and without those of queues that the caller may not use.
func TestTheJobsBeforeAJobAreListed(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const n = 7
		last := furnishBefore(t, db, n)
		g := startGuarded(t, db)
		all, mine, theirs := g.token("all", "read"), g.token("mine", "read:mine"), g.token("theirs", "read:theirs")
		pages := func(token string, limit int) (ids []int64, sizes string) {
			for after := ""; ; {
				status, body := g.before(token, fmt.Sprintf("%d/before?limit=%d&after=%s", last, limit, after))
				var page admin.Page
				if err := json.Unmarshal([]byte(body), &page); status != 200 || err != nil || strings.Contains(body, "token") || !strings.Contains(body, `"jobs":[`) {
					t.Fatalf("%d %v %s", status, err, body)
				}
				for _, j := range page.Jobs {
					if j.ID == last-n && (j.State != dibs.Completed || string(j.Result) != `{"pages":3}`) || j.ID == last-n+1 && j.State != dibs.Running {
						t.Errorf("job %d is %s with the result %s", j.ID, j.State, j.Result)
					}
					ids = append(ids, j.ID-last+n)
				}
				sizes += fmt.Sprint(len(page.Jobs))
				if after = page.Next; after == "" {
					return ids, sizes
				}
			}
		}
		for _, c := range []struct {
			token string
			limit int
			want  string
		}{
			{all, 1000, "[0 1 2 3 4 5 6] 7"},
			{all, 3, "[0 1 2 3 4 5 6] 331"},
			{all, 7, "[0 1 2 3 4 5 6] 70"},
			{mine, 100, "[0 1 3 4 6] 5"},
			{mine, 2, "[0 1 3 4 6] 221"},
		} {
			if ids, sizes := pages(c.token, c.limit); fmt.Sprint(ids)+" "+sizes != c.want {
				t.Errorf("pages of %d are %v %s, want %s", c.limit, ids, sizes, c.want)
			}
		}
		if status, body := g.before(theirs, fmt.Sprintf("%d/before", last)); status != 404 {
			t.Errorf("a job of another queue: %d %s", status, body)
		}
	})
}
