package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/server"
)

// A token for some queues cannot have jobs come after those of others, nor learn whether these exist.
func TestJobsComeAfterThoseOfTheTokensQueuesOnly(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, onSQLite(t))
	got, err := g.db.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", Queue: "mine"}, {Kind: "k", Queue: "foreign"}})
	if err != nil {
		t.Fatal(err)
	}
	mine, foreign := got[0].ID, got[1].ID
	some, all := g.token("some", "enqueue:mine"), g.token("all", "enqueue")
	one := func(token string, id int64) (int, string) {
		status, p := by(t, token, "POST", g.url+"/v1/jobs", fmt.Sprintf(`{"queue":"mine","after":[%d]}`, id))
		return status, p.Detail
	}
	many := func(token string, id int64) (int, string) {
		status, p := by(t, token, "POST", g.url+"/v1/jobs/batch", fmt.Sprintf(`{"jobs":[{"queue":"mine","ref":"a"},{"queue":"mine","after":["a",{"id":"%d","on":"ended"}]}]}`, id))
		return status, p.Detail
	}
	for _, c := range []struct {
		token     string
		id        int64
		one, many int
		why       string
	}{
		{all, mine, 201, 200, ""},
		{all, foreign, 201, 200, ""},
		{all, 1 << 40, 422, 422, fmt.Sprintf("there is no job %d", 1<<40)},
		{some, mine, 201, 200, ""},
		{some, foreign, 422, 422, fmt.Sprintf("there is no job %d", foreign)},
		{some, 1 << 40, 422, 422, fmt.Sprintf("there is no job %d", 1<<40)},
	} {
		if status, detail := one(c.token, c.id); status != c.one || c.why != "" && detail != "after[0]: "+c.why {
			t.Errorf("one job after %d: %d %s", c.id, status, detail)
		}
		if status, detail := many(c.token, c.id); status != c.many || c.why != "" && detail != "jobs[1].after[1]: "+c.why {
			t.Errorf("many jobs after %d: %d %s", c.id, status, detail)
		}
	}
	lines := `{"queue":"mine","after":["x"]}` + "\n" + fmt.Sprintf(`{"queue":"mine","after":[%d]}`, foreign) + "\n"
	r, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/v1/jobs/stream", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+some)
	r.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), "a call of its own") || !strings.Contains(string(body), fmt.Sprintf("after[0]: there is no job %d", foreign)) {
		t.Errorf("the stream answers %s, %v", body, err)
	}
}

// The jobs of one call name no more than MaxAfter others in all.
func TestACallNamesNoMoreThanSoManyJobs(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{})
	half := strings.Repeat("1,", dibs.MaxAfter/2) + "1"
	status, _, body := call(t, "POST", url+"/v1/jobs/batch", `{"jobs":[{"after":[`+half+`]},{"after":[`+half+`]}]}`)
	if status != 422 || !strings.Contains(string(body), "jobs[1].after: the jobs of one call come after more than 100000 others in all") {
		t.Errorf("%d %s", status, body)
	}
}
