package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/metrics"
)

// The exchanges of testdata are the same on every database. Its calls are measured, as those of 'dibs serve' are.
func TestExchangesAreAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, steps := range exchanges {
		t.Run(name, func(t *testing.T) {
			onDatabases(t, func(t *testing.T, db admin.Database) {
				measured, err := metrics.Observe(prometheus.NewRegistry(), db)
				if err != nil {
					t.Fatal(err)
				}
				golden.Match(t, name+".http", transcript(t, serve(t, measured), steps))
			})
		})
	}
}

// exchanges are requests in their order: method, path and body. $TOKEN is the token of the job
// that was claimed last.
var exchanges = map[string]string{
	"jobs": `
POST /v1/jobs {"queue":"emails","kind":"welcome","payload":{"to":"ann@example.com","id":12345678901234567890}}
POST /v1/jobs {"queue":"emails","unique_key":"daily","priority":300}
POST /v1/jobs/batch {"jobs":[{"queue":"emails","payload":"a"},{"queue":"emails","payload":"b","delay":"1h"}]}
POST /v1/jobs {"queue":"emails","unique_key":"daily"}
POST /v1/claim {"queue":"emails","worker":"w1","n":2}
POST /v1/extend {"leases":[{"id":"1","token":"$TOKEN","progress":{"done":1,"total":2}},{"id":2,"token":"$TOKEN"}],"lease":60}
GET /v1/jobs/1
PATCH /v1/queues/emails {"job_timeout":0.000001}
POST /v1/extend {"leases":[{"id":1,"token":"$TOKEN"}],"lease":60}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","result":{"sent":true}}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed"},{"id":3,"token":"$TOKEN","ending":"retry","error":"no answer","delay":3600}]}
POST /v1/extend {"leases":[{"id":1,"token":"$TOKEN"}],"lease":"1m"}
GET /v1/jobs/1/wait?timeout=5
GET /v1/jobs/2/wait?timeout=0.05
GET /v1/jobs?queue=emails&limit=2
GET /v1/jobs?queue=emails&state=completed
GET /v1/jobs?queue=emails&state=waiting&scheduled=true
GET /v1/jobs?state=dead&scheduled=true
GET /v1/jobs?queue=emails&unique_key=daily
GET /v1/jobs?unique_key=daily
GET /v1/jobs?state=dead&error=refused&finished_since=2026-01-01T00:00:00Z
POST /v1/jobs/cancel {"ids":[2,"3",1,999]}
POST /v1/jobs/requeue {"ids":[1,2,999]}
POST /v1/jobs/requeue {"ids":[1,"998"]}
POST /v1/jobs/edit {"ids":[1,2,998],"priority":7}
POST /v1/jobs/prune {"ids":[2,"3",999]}
POST /v1/jobs/prune {"queue":"emails","older_than":0}
GET /v1/jobs/999
`,
	"steps": `
POST /v1/jobs {"queue":"orders","kind":"order","payload":"seat 7"}
POST /v1/claim {"queue":"orders","worker":"w1"}
POST /v1/steps/list {"id":1,"token":"$TOKEN"}
POST /v1/steps {"id":1,"token":"$TOKEN","step":"charge","value":{"a":1,"a":12345678901234567890}}
POST /v1/steps {"id":"1","token":"$TOKEN","step":"mail"}
POST /v1/steps {"id":1,"token":"$TOKEN","step":"mail","value":null}
POST /v1/steps {"id":1,"token":"$TOKEN","step":"mail","value":1}
POST /v1/steps {"id":1,"token":"$TOKEN","step":""}
POST /v1/steps {"id":1,"token":"$TOKEN","step":"\ud800"}
POST /v1/steps {"id":1,"token":"$TOKEN","name":"mail"}
POST /v1/steps {"id":1,"step":"mail"}
POST /v1/steps {"id":1,"token":"00000000000000000000000000000001","step":"other"}
POST /v1/steps/list {"id":1,"token":"00000000000000000000000000000001"}
POST /v1/steps/list {"id":1}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"retry","error":"no mail","delay":0}]}
GET /v1/jobs/1/steps
POST /v1/claim {"queue":"orders","worker":"w1","wait":10}
POST /v1/steps/list {"id":"1","token":"$TOKEN"}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"retry","add":[{"kind":"k"}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":{}}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{},7]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{},{"kind":"k","kind":"l"}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{},{"delay":"soon"}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{},{"kind":"a\u0001b"}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{},{"priority":-1}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"00000000000000000000000000000001","ending":"completed","add":[{"kind":"none"}]}]}
POST /v1/finish {"outcomes":[{"id":1,"token":"$TOKEN","ending":"completed","add":[{"queue":"mails","kind":"a","payload":1},{"kind":"b","delay":60}]}]}
POST /v1/steps {"id":1,"token":"$TOKEN","step":"late"}
GET /v1/jobs?queue=mails
GET /v1/jobs?queue=default
GET /v1/jobs/1/steps
GET /v1/jobs/999/steps
`,
	"problems": `
GET /v1/job
GET /v1//jobs
GET /v1/jobs/../jobs
DELETE /v1/jobs
GET /v1/jobs/0
GET /v1/jobs/99999999999999999999
GET /v1/jobs?colour=red
GET /v1/jobs?state=done
GET /v1/jobs?limit=0
GET /v1/jobs?state=dead&finished_before=yesterday
GET /v1/jobs/1/wait?timeout=61
GET /v1/jobs/1/before
GET /v1/jobs/1/before?limit=1001
GET /v1/jobs/1/before?after=page
POST /v1/jobs
POST /v1/jobs []
POST /v1/jobs null
POST /v1/jobs {"payload":1
POST /v1/jobs {"payload":1}{}
POST /v1/jobs {"kind":"a","kind":"b"}
POST /v1/jobs {"queue":7}
POST /v1/jobs {"delay":"soon"}
POST /v1/jobs {"run_at":5}
POST /v1/jobs {"priority":"high"}
POST /v1/jobs/batch {"jobs":[{},{"run_at":"tomorrow"}]}
POST /v1/jobs/batch {"jobs":{}}
POST /v1/claim {"worker":"w","kinds":["a",7]}
POST /v1/claim {"worker":"w","wait":"long"}
POST /v1/jobs {"delay":1,"run_at":"2026-11-21T08:30:00Z"}
POST /v1/jobs {"priority":40000}
POST /v1/jobs/batch {"jobs":[{},{"metadata":{"dibs.tick":"2026-11-21T08:30:00Z"}}]}
POST /v1/jobs/batch {}
POST /v1/jobs/batch {"jobs":[{},{"priority":-1}]}
POST /v1/jobs/batch {"jobs":[{},7]}
POST /v1/jobs/batch {"jobs":[{"ref":"page"},{"after":["page",{"ref":"page","onn":"ended"}]}]}
POST /v1/jobs/batch {"jobs":[{"after":["page"]},{"ref":"page"}]}
POST /v1/jobs/batch {"jobs":[{},{"after":[{"id":1,"ref":"page"}]}]}
POST /v1/jobs {"after":["page"]}
POST /v1/jobs {"after":[1,{"id":1,"on":"done"}]}
POST /v1/claim {}
POST /v1/claim {"worker":"w","n":0}
POST /v1/claim {"worker":"w","wait":61}
POST /v1/extend {"leases":[{"id":1,"token":"abc"}],"lease":60}
POST /v1/extend {"leases":[]}
POST /v1/extend {"leases":[],"lease":"1ms"}
POST /v1/finish {"outcomes":[{"id":1,"token":"00000000000000000000000000000001","ending":"done"}]}
POST /v1/finish {"outcomes":[{"id":"one","token":"00000000000000000000000000000001","ending":"completed"}]}
POST /v1/extend {"leases":[{"id":1,"token":"00000000000000000000000000000001","progress":{"done":"half"}}],"lease":60}
POST /v1/jobs/cancel {"ids":[1,"two"]}
POST /v1/jobs/edit {"ids":[1]}
POST /v1/jobs/prune {"queue":"emails"}
POST /v1/jobs/prune {"ids":[1],"older_than":0}
POST /v1/jobs/prune {"state":"waiting","older_than":1}
GET /v1/queues/nowhere
PATCH /v1/queues/nowhere {"paused":true}
PATCH /v1/queues/nowhere?create=perhaps {"paused":true}
PATCH /v1/queues/nowhere/groups/g {"limit":1}
PATCH /v1/queues/emails {"paused":null}
PATCH /v1/queues/emails {"rate":null}
PATCH /v1/queues/emails {"backoff":{"max":null}}
PATCH /v1/queues/emails/groups/g {"limit":null}
PATCH /v1/queues/emails?create=true {"concurrency":-1}
PATCH /v1/queues/emails?create=true {"concurrency":"two"}
PATCH /v1/queues/emails?create=true {"rate":{"number":1}}
PATCH /v1/queues/emails?create=true {"rate":{"n":1,"per":"often"}}
PATCH /v1/queues/emails {"Concurrency":1}
POST /v1/finish {"id":1,"token":"0b5e7c4f1d9a48e6a3c2f0b1d4e5a697","ending":"completed"}
PUT /v1/schedules/report {"spec":"@daily","jitter":[]}
PATCH /v1/queues/emails?create=true {"backoff":7}
GET /v1/schedules/nowhere
PATCH /v1/schedules/nowhere {"paused":true}
PUT /v1/schedules/report {"name":"other","spec":"@daily"}
PUT /v1/schedules/report {"spec":"61 * * * *"}
DELETE /v1/schedules/nowhere
DELETE /v1/queues/nowhere
DELETE /v1/queues/emails?ended=perhaps
`,
	"settings": `
PATCH /v1/queues/a%2Fb?create=true {"concurrency":2,"backoff":{"base":"5s"},"rate":{"n":10,"per":"1m"}}
PATCH /v1/queues/a%2Fb {"backoff":{"max":60},"rate":{"burst":5}}
GET /v1/queues/a%2Fb
PATCH /v1/queues/a%2Fb {"rate":{"n":0},"group_rate":{"n":5,"per":1}}
PATCH /v1/queues/a%2Fb/groups/g {"limit":2,"rate":{"n":1,"per":1}}
PATCH /v1/queues/a%2Fb/groups/g {"limit":0}
GET /v1/queues/a%2Fb/groups
GET /v1/queues
GET /v1/queues?limit=1
GET /v1/workers
PUT /v1/schedules/report {"spec":"@daily","payload":{"n":12345678901234567890},"jitter":"1m"}
PATCH /v1/schedules/report {"paused":true}
PATCH /v1/schedules/report {"paused":null}
PATCH /v1/schedules/report {"payload":null}
PATCH /v1/schedules/report {"paused":false,"queue":"reports","priority":3}
POST /v1/schedules/report/run
GET /v1/schedules/report/next?n=1
GET /v1/schedules/report/next?n=0
GET /v1/schedules
DELETE /v1/schedules/report
DELETE /v1/queues/a%2Fb
GET /healthz
GET /readyz
`,
}

// transcript sends requests one by one, and writes down what was sent and answered.
func transcript(t *testing.T, url, steps string) string {
	t.Helper()
	var out strings.Builder
	token := ""
	for step := range strings.Lines(strings.TrimSpace(steps)) {
		step = strings.TrimSpace(step)
		method, rest, _ := strings.Cut(step, " ")
		path, body, _ := strings.Cut(rest, " ")
		status, header, answer := call(t, method, url+path, strings.ReplaceAll(body, "$TOKEN", token))
		if found := regexp.MustCompile(`"token":"(\w+)"`).FindSubmatch(answer); found != nil {
			token = string(found[1])
		}
		fmt.Fprintf(&out, "%s\n\n%d %s\n%s\n", step, status, header.Get("Content-Type"), settled(answer))
	}
	return out.String()
}

var (
	anyToken = regexp.MustCompile(`"[0-9a-f]{32}"`)
	anyName  = regexp.MustCompile(`request:[A-Z2-7]{26}`)
	anyTime  = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[^"]*"`)
	anyPlace = regexp.MustCompile(`"next": "[^"]*"`)
)

// settled is JSON, indented, without what differs each time.
func settled(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	text := anyTime.ReplaceAllString(anyToken.ReplaceAllString(b.String(), `"TOKEN"`), `"TIME"`)
	return anyPlace.ReplaceAllString(anyName.ReplaceAllString(text, "request:ID"), `"next": "PLACE"`)
}

func call(t testing.TB, method, url, body string) (int, http.Header, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, answer
}
