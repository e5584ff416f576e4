//go:build unix

package daemon

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
)

// The page, the lists and the metrics of an adopted table are there; what only its workers and SQL do is refused,
// and told.
func TestServeShowsAnAdoptedTable(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, strings.Replace(clitest.BySide, "max_attempts: 3", "max_attempts: 1", 1))
		if r := x.Run("", x.WithTable("work", "--until-empty", "--", "sh", "-c", "exit 3")...); r.Code != 0 {
			c.T.Fatalf("%+v", r)
		}
		s := c.ServeProcess(nil, x.WithTable("--listen", "127.0.0.1:0")...)
		client := &http.Client{}
		for path, words := range map[string][]string{
			"/":                           {"tickets"},
			"/queues/tickets":             {"waiting", "running", "dead"},
			"/queues/tickets?state=dead":  {"A-1", "exit code 3", "&lt;b&gt; &amp; "},
			"/v1/stats":                   {`"dead":4`},
			"/v1/jobs?state=dead":         {`"key":"A-1"`},
			"/metrics":                    {`dibs_queue_jobs{queue="tickets",state="dead"} 4`},
			"/readyz":                     {"ok"},
			"/queues/tickets?state=ended": {"state"},
		} {
			status, text := ask(c.T, client, "GET", s.URL+path, "", "")
			for _, word := range words {
				if !strings.Contains(text, word) || status >= 500 {
					c.T.Errorf("%s: %d, without %q: %.2000s", path, status, word, text)
				}
			}
		}
		const token = "6d4c8b1f0e2a497395c7d1a3b5f80e62"
		for request, words := range map[string]string{
			"GET /workers":             "keeps no register of its workers",
			"GET /schedules":           "it has no schedules",
			"GET /changes":             "who changes what is in the server&#39;s log",
			"GET /v1/workers":          "it keeps no register of its workers",
			"POST /v1/claim":           "work on it with",
			"POST /v1/jobs":            "insert rows with SQL",
			"POST /v1/steps":           "have no place for steps",
			"POST /v1/steps/list":      "have no place for steps",
			"PATCH /v1/queues/tickets": "its settings are in its mapping",
		} {
			method, path, _ := strings.Cut(request, " ")
			body := map[string]string{
				"POST /v1/claim": `{"queue":"tickets","worker":"w"}`, "POST /v1/jobs": `{"queue":"tickets"}`, "PATCH /v1/queues/tickets": `{"paused":true}`,
				"POST /v1/steps": `{"id":1,"token":"` + token + `","step":"a"}`, "POST /v1/steps/list": `{"id":1,"token":"` + token + `"}`,
			}[request]
			if status, text := ask(c.T, client, method, s.URL+path, "", body); status != http.StatusNotImplemented || !strings.Contains(text, words) || strings.Contains(text, "unsupported operation") {
				c.T.Errorf("%s: %d %.1000s", request, status, text)
			}
		}
		_, list := ask(c.T, client, "GET", s.URL+"/v1/jobs?state=dead", "", "")
		ids := `"ids":[` + regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(list)[1] + "]"
		if status, text := ask(c.T, client, "POST", s.URL+"/v1/jobs/requeue", "", "{"+ids+"}"); status != http.StatusOK || !strings.Contains(text, ids) {
			c.T.Errorf("a dead row is not requeued: %d %.1000s", status, text)
		}
	})
}
