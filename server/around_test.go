package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A token for one queue does not reach other queues in another way: by leaving the queue out, by moving
// something, by a name that is taken, or by a line among others.
func TestTokensForOneQueueDoNotGetAroundIt(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		g := startGuarded(t, db)
		g.furnish("mine")
		g.furnish("theirs")
		g.furnish(dibs.DefaultQueue)
		token := g.token("mine", "admin:mine")
		before := g.picture("theirs") + g.picture(dibs.DefaultQueue)
		for call, want := range map[string]int{
			"GET /v1/jobs":                                                        403,
			"GET /v1/jobs?queue=":                                                 403,
			"GET /v1/jobs?state=completed":                                        403,
			"GET /v1/jobs?queue=mine&queue=theirs":                                422,
			"GET /v1/jobs?queue=mine&Queue=theirs":                                422,
			`POST /v1/jobs {}`:                                                    403, // the default queue
			`POST /v1/jobs {"queue":null}`:                                        403,
			`POST /v1/jobs {"queue":"mine","queue":"theirs"}`:                     400,
			`POST /v1/jobs {"queue":"mine","QUEUE":"theirs"}`:                     400,
			`POST /v1/jobs/batch {"jobs":[{"queue":"mine"},{"queue":"theirs"}]}`:  403,
			`POST /v1/jobs/batch {"jobs":[{"queue":"mine"},{"queue":"mine"},{}]}`: 403,
			`POST /v1/claim {"worker":"w"}`:                                       403,
			`POST /v1/claim {"queue":"","worker":"w"}`:                            403,
			`POST /v1/claim {"queue":"Mine","worker":"w"}`:                        403,
			`POST /v1/claim {"queue":"mine ","worker":"w"}`:                       403,
			`POST /v1/jobs/prune {"older_than":0}`:                                403,
			`POST /v1/jobs/prune {"queue":"","older_than":0,"state":"dead"}`:      403,
			`PUT /v1/schedules/new {"spec":"@every 1h"}`:                          403,
			`PUT /v1/schedules/tick-theirs {"spec":"@every 1h","queue":"mine"}`:   403,
			`PUT /v1/schedules/tick-mine {"spec":"@every 1h","queue":"theirs"}`:   403,
			`PATCH /v1/schedules/tick-mine {"queue":"theirs"}`:                    403,
			`PATCH /v1/schedules/tick-mine {"queue":""}`:                          403,
			`PATCH /v1/schedules/tick-theirs {"queue":"mine"}`:                    404,
			`PATCH /v1/queues/theirs {"paused":true}`:                             403,
			`PATCH /v1/queues/mine%2F..%2Ftheirs {"paused":true}`:                 403,
		} {
			method, rest, _ := strings.Cut(call, " ")
			path, body, _ := strings.Cut(rest, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			if status, p := problem(t, r); status != want {
				t.Errorf("%s: %d %+v, want %d", call, status, p, want)
			}
		}
		if after := g.picture("theirs") + g.picture(dibs.DefaultQueue); after != before {
			t.Errorf("it has reached others:\n%s\n%s", before, after)
		}
		schedules, err := db.Schedules(t.Context())
		if err != nil || len(schedules) != 3 || !strings.Contains(fmt.Sprint(schedules), "tick-mine") {
			t.Errorf("%v, %v", schedules, err)
		}
	})
}

// Nobody but the claimer sees the token of a lease, whatever scope asks.
func TestTokensOfLeasesAreShownToTheClaimerOnly(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		g := startGuarded(t, db)
		held := g.furnish("q")
		lease := held.Replace("$LEASE")
		boss := g.token("boss", "admin")
		for _, rt := range g.server.Routes() {
			if s := samples[rt.Method+" "+rt.Pattern]; s.apart == byLease {
				continue
			}
			if status, _, body := g.send(rt, held, "Bearer "+boss); strings.Contains(body, lease) || strings.Contains(body, `"token":"0000`) {
				t.Errorf("%s %s shows it: %d %s", rt.Method, rt.Pattern, status, body)
			}
		}
		for _, path := range []string{"/v1/jobs?queue=q&state=running", "/v1/jobs/" + held.Replace("$HELD"), "/v1/jobs/" + held.Replace("$HELD") + "/wait?timeout=0.01"} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", g.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+boss)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text := make([]byte, 1<<16)
			n, _ := answer.Body.Read(text)
			answer.Body.Close()
			if answer.StatusCode != 200 || strings.Contains(string(text[:n]), lease) || !strings.Contains(string(text[:n]), `"running"`) {
				t.Errorf("%s: %d %s", path, answer.StatusCode, text[:n])
			}
		}
	})
}
