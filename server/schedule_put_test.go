package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// A list of schedules leaves out payloads and metadata: an element of it that is sent back is refused, and loses nothing.
func TestAListedScheduleSentBackLosesNoPayload(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		_, url := start(t, db, server.Options{})
		const path = "/v1/schedules/report"
		put := func(body string, status int, words ...string) {
			t.Helper()
			got, _, answer := call(t, http.MethodPut, url+path, body)
			if got != status {
				t.Errorf("PUT %s: %d: %s", body, got, answer)
			}
			for _, word := range words {
				if !strings.Contains(string(answer), word) {
					t.Errorf("PUT %s lacks %q: %s", body, word, answer)
				}
			}
		}
		put(`{"spec": "@daily"}`, http.StatusOK)
		put(`{"spec": "@daily", "payload": {"to": "ann"}, "metadata": {"team": "a"}}`, http.StatusOK, `"to":"ann"`)
		_, _, list := call(t, http.MethodGet, url+"/v1/schedules", "")
		var all struct{ Schedules []json.RawMessage }
		if err := json.Unmarshal(list, &all); err != nil || len(all.Schedules) != 1 {
			t.Fatal(err, string(list))
		}
		put(string(all.Schedules[0]), http.StatusUnprocessableEntity, `"payload"`, "must be given, as the schedule has one", "null takes it away")
		put(`{"spec": "@daily", "payload": {"to": "ann"}}`, http.StatusUnprocessableEntity, `"metadata"`, "{} takes it away")
		if _, _, one := call(t, http.MethodGet, url+path, ""); !strings.Contains(string(one), `"payload":{"to":"ann"}`) || !strings.Contains(string(one), `"metadata":{"team":"a"}`) {
			t.Errorf("now the schedule is %s", one)
		}
		put(`{"spec": "@hourly", "payload": null, "metadata": {}}`, http.StatusOK)
		put(`{"spec": "@daily"}`, http.StatusOK)
		if _, _, one := call(t, http.MethodGet, url+path, ""); strings.Contains(string(one), "ann") || strings.Contains(string(one), "team") {
			t.Errorf("now the schedule is %s", one)
		}
	})
}
