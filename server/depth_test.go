package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Whatever is taken can be read again by encoding/json, which reads 10,000 levels.
func TestEveryAnswerCanBeRead(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		url := serve(t, db)
		taken := 0
		for _, levels := range []int{dibs.MaxDepth, dibs.MaxDepth + 1, 9998} {
			nested := strings.Repeat("[", levels) + strings.Repeat("]", levels)
			job := fmt.Sprintf(`{"queue":"q","payload":%s}`, nested)
			status, _, answer := call(t, http.MethodPost, url+"/v1/jobs", job)
			switch {
			case status == http.StatusOK || status == http.StatusCreated:
				taken++
			case status != http.StatusUnprocessableEntity || !strings.Contains(string(answer), "payload: is nested more than 1000 deep"):
				t.Errorf("a job of %d levels: %d %s", levels, status, answer)
			}
		}
		for _, ask := range []string{"GET /v1/jobs?queue=q", "GET /v1/jobs/1", `POST /v1/claim {"queue":"q","worker":"w","n":10}`} {
			method, rest, _ := strings.Cut(ask, " ")
			path, body, _ := strings.Cut(rest, " ")
			var v any
			if status, _, answer := call(t, method, url+path, body); status != http.StatusOK || json.Unmarshal(answer, &v) != nil {
				t.Errorf("%s: %d %.200s", ask, status, answer)
			}
		}
		if taken != 1 {
			t.Errorf("%d jobs are taken, want the one of %d levels", taken, dibs.MaxDepth)
		}
	})
}

func TestNoFieldOfAnObjectInsideIsTakenTwice(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		url := serve(t, db)
		token := strings.Repeat("0", 31) + "1"
		for ask, twice := range map[string]string{
			`PATCH /v1/queues/q {"rate":{"n":1,"n":2,"per":1}}`:                                                                   "rate.n",
			`PATCH /v1/queues/q {"backoff":{"base":1,"base":2}}`:                                                                  "backoff.base",
			`PATCH /v1/queues/q/groups/g {"rate":{"n":1,"per":1,"per":2}}`:                                                        "rate.per",
			`POST /v1/extend {"leases":[{"id":1,"token":"` + token + `","progress":{"done":1,"done":2,"total":3}}],"lease":"1m"}`: "leases[0].progress.done",
		} {
			method, rest, _ := strings.Cut(ask, " ")
			path, body, _ := strings.Cut(rest, " ")
			if status, _, answer := call(t, method, url+path, body); status != http.StatusBadRequest || !strings.Contains(string(answer), `"field":"`+twice+`","reason":"is given twice"`) {
				t.Errorf("%s: %d %s", ask, status, answer)
			}
		}
	})
}
