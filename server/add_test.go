package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/server"
)

// Who may finish jobs may add others only with the scope enqueue, and only to its queues.
func TestAddedJobsNeedTheScopeEnqueue(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, onSQLite(t))
	work, some, all := g.token("works", "work"), g.token("some", "work", "enqueue:mine"), g.token("all", "work", "enqueue")
	add := func(token, queue string) (int, string) {
		if _, err := g.db.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		jobs, err := g.db.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1, Lease: time.Minute})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		l := jobs[0].Lease()
		status, p := by(t, token, "POST", g.url+"/v1/finish",
			fmt.Sprintf(`{"outcomes":[{"id":%d,"token":"%s","ending":"completed","add":[{"queue":"mine"},{"queue":"%s"}]}]}`, l.ID, l.Token, queue))
		return status, p.Detail
	}
	for _, c := range []struct {
		token, queue string
		status       int
		why          string
	}{
		{work, "mine", 403, "needs the scope enqueue"},
		{some, "mine", 200, ""},
		{some, "foreign", 403, `only for the queues "mine"`},
		{all, "foreign", 200, ""},
	} {
		if status, detail := add(c.token, c.queue); status != c.status || !strings.Contains(detail, c.why) {
			t.Errorf("a job for queue %s: %d %s, want %d %s", c.queue, status, detail, c.status, c.why)
		}
	}
}

// Added jobs come after jobs of the token's queues only, in the words for jobs that do not exist.
func TestAddedJobsComeAfterThoseOfTheTokensQueuesOnly(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, onSQLite(t))
	got, err := g.db.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", Queue: "mine"}, {Kind: "k", Queue: "foreign"}, {Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := g.db.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	some := g.token("some", "work", "enqueue:mine")
	l := jobs[0].Lease()
	for _, c := range []struct {
		id     int64
		status int
	}{{got[1].ID, 422}, {1 << 40, 422}, {got[0].ID, 200}} {
		status, p := by(t, some, "POST", g.url+"/v1/finish",
			fmt.Sprintf(`{"outcomes":[{"id":%d,"token":"%s","ending":"completed","add":[{"queue":"mine","ref":"a"},{"queue":"mine","after":["a",%d]}]}]}`, l.ID, l.Token, c.id))
		if want := fmt.Sprintf("outcomes[0].add[1].after[1]: there is no job %d", c.id); status != c.status || status == 422 && p.Detail != want {
			t.Errorf("after job %d: %d %s, want %s", c.id, status, p.Detail, want)
		}
	}
}

// The outcomes of one call add at most MaxBatch jobs, in all.
func TestOneFinishAddsNoMoreThanABatch(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{})
	jobs := func(n int) string { return strings.Repeat("{},", n-1) + "{}" }
	one := `{"id":%d,"token":"00000000000000000000000000000001","ending":"completed","add":[%s]}`
	for body, want := range map[string]string{
		fmt.Sprintf(one, 1, jobs(dibs.MaxBatch+1)):                                             "outcomes[0].add: has 10001 items, the limit is 10000",
		fmt.Sprintf(one, 1, jobs(dibs.MaxBatch-1)) + "," + fmt.Sprintf(one, 2, jobs(2)):        "outcomes[1].add: the outcomes of one call add more than 10000 jobs",
		fmt.Sprintf(one, 1, jobs(dibs.MaxBatch-1)) + "," + fmt.Sprintf(one, 2, `{"kind":"k"}`): "2 of 2 outcomes were not written",
	} {
		status, _, answer := call(t, "POST", url+"/v1/finish", `{"outcomes":[`+body+`]}`)
		if status < 400 || !strings.Contains(string(answer), want) {
			t.Errorf("%d %.300s, want %s", status, answer, want)
		}
	}
}
