// Package apitest holds the API of package server against its description: a validator of OpenAPI
// judges the description, and every request and answer of its examples.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// onDatabases runs a test on a fresh database of each sort.
func onDatabases(t *testing.T, f func(t *testing.T, db admin.Database)) {
	for name, url := range map[string]func() string{
		"sqlite":   func() string { return "sqlite:" + filepath.Join(t.TempDir(), "jobs.db") },
		"postgres": func() string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			url := open.URL(url())
			if name == "postgres" {
				if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			db, err := open.Database(t.Context(), url, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				findings, err := db.Check(context.Background())
				if err := errors.Join(err, db.Close()); err != nil || len(findings) > 0 {
					t.Errorf("%q, %v", findings, err)
				}
			}()
			f(t, db)
		})
	}
}

// api is a server and its description.
type api struct {
	url    string
	model  *openapi3.T
	router routers.Router
	token  string // the token of the job that was claimed first
}

func start(t *testing.T, db admin.Database) *api {
	t.Helper()
	s := server.New(db, server.Options{})
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	r, err := http.Get(h.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	model, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	// Examples are judged as they are sent: some show what is refused.
	if err := model.Validate(t.Context(), openapi3.DisableExamplesValidation()); err != nil {
		t.Errorf("the description is not valid: %v", err)
	}
	model.Servers = openapi3.Servers{{URL: h.URL}}
	router, err := gorillamux.NewRouter(model)
	if err != nil {
		t.Fatal(err)
	}
	return &api{url: h.URL, model: model, router: router}
}

// step is one example: the operation, the example's name and the status of its answer.
type step struct {
	operation, example, status string
	path                       string // in place of the path with the examples of its parameters
}

// script is the order in which the examples are sent to one server.
var script = []step{
	{"listWorkers", "workers", "200", ""}, // before the first claim: those who claim over HTTP are listed within seconds
	{"enqueueJob", "simple", "201", ""},
	{"enqueueJob", "unique", "201", ""},
	{"enqueueJob", "misspelled", "400", ""},
	{"enqueueJob", "invalid", "422", ""},
	{"enqueueJobs", "two", "200", ""},
	{"enqueueJobs", "invalid", "422", ""},
	{"streamJobs", "lines", "200", ""},
	{"claimJobs", "jobs", "200", ""},
	{"claimJobs", "none", "200", ""},
	{"extendLeases", "extended", "200", ""},
	{"extendLeases", "lost", "409", ""},
	{"writeStep", "charge", "200", ""},
	{"listHeldSteps", "done", "200", ""},
	{"finishJobs", "written", "200", ""},
	{"writeStep", "lost", "409", ""},
	{"getSteps", "done", "200", ""},
	{"listJobsBefore", "none", "200", ""},
	{"finishJobs", "lost", "409", ""},
	{"getJob", "completed", "200", ""},
	{"getJob", "", "404", "/v1/jobs/999"},
	{"getJob", "", "422", "/v1/jobs/one"},
	{"waitForJob", "completed", "200", ""},
	{"listJobsBefore", "", "404", "/v1/jobs/999/before"},
	{"listJobsBefore", "", "422", "/v1/jobs/1/before?limit=1001"},
	{"listJobs", "completed", "200", ""},
	{"listJobs", "", "422", "/v1/jobs?limit=1001"},
	{"cancelJobs", "ids", "200", ""},
	{"requeueJobs", "ids", "200", ""},
	{"editJobs", "first", "200", ""},
	{"pruneJobs", "old", "200", ""},
	{"changeQueue", "emails", "200", ""},
	{"getQueue", "emails", "200", ""},
	{"getQueue", "", "404", "/v1/queues/nowhere"},
	{"listQueues", "queues", "200", ""},
	{"changeGroup", "limit", "200", ""},
	{"listGroups", "groups", "200", ""},
	{"getStats", "stats", "200", ""},
	{"setSchedule", "report", "200", ""},
	{"getSchedule", "report", "200", ""},
	{"listSchedules", "schedules", "200", ""},
	{"nextTicks", "next", "200", ""},
	{"runSchedule", "run", "201", ""},
	{"changeSchedule", "pause", "200", ""},
	{"deleteSchedule", "", "204", ""},
	{"deleteSchedule", "", "404", ""},
	{"enqueueJobs", "after", "200", ""},
	{"enqueueJob", "held", "200", ""},
	{"getHealth", "ok", "200", ""},
	{"getReadiness", "ok", "200", ""},
	{"getDescription", "", "200", ""},
}

func TestEveryExampleIsAnsweredAsDescribed(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		a := start(t, db)
		worker := dibs.WorkerInfo{
			ID: dibs.Token{1}, Name: "web-1", Host: "web-1", PID: 4711, Version: "v1.2.3", Queues: []string{"emails"}, Kinds: []string{"welcome"},
			Concurrency: 10, State: dibs.WorkerWorking,
		}
		if err := db.Register(t.Context(), worker); err != nil {
			t.Fatal(err)
		}
		left := a.examples()
		for _, s := range script {
			a.play(t, s)
			delete(left, s.operation+" "+s.example+" "+s.status)
		}
		for one := range left {
			t.Errorf("the example %s is not sent", one)
		}
	})
}

// operations finds each operation by its id, with its method and path.
func (a *api) operations() (all map[string]*openapi3.Operation, method, path map[string]string) {
	all, method, path = map[string]*openapi3.Operation{}, map[string]string{}, map[string]string{}
	for p, item := range a.model.Paths.Map() {
		for m, op := range item.Operations() {
			all[op.OperationID], method[op.OperationID], path[op.OperationID] = op, m, p
		}
	}
	return all, method, path
}

// examples lists the examples of answers, and of requests with "" for the status.
func (a *api) examples() map[string]bool {
	list := map[string]bool{}
	all, _, _ := a.operations()
	for id, op := range all {
		answered := map[string]bool{}
		for status, r := range op.Responses.Map() {
			for _, media := range r.Value.Content {
				for name := range media.Examples {
					list[id+" "+name+" "+status] = true
					answered[name] = true
				}
			}
		}
		if op.RequestBody == nil {
			continue
		}
		for _, media := range op.RequestBody.Value.Content {
			for name := range media.Examples {
				if !answered[name] {
					list[id+" "+name+" without an answer"] = true
				}
			}
		}
	}
	return list
}

// play sends one example, and compares the answer with the one that the description gives.
func (a *api) play(t *testing.T, s step) {
	t.Helper()
	all, methods, paths := a.operations()
	op := all[s.operation]
	if op == nil {
		t.Fatalf("no operation %s", s.operation)
	}
	path := s.path
	if path == "" {
		path = withExamples(paths[s.operation], op)
	}
	var media string
	var body []byte
	if op.RequestBody != nil {
		for m, content := range op.RequestBody.Value.Content {
			media, body = m, a.current(a.example(t, content, s))
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), methods[s.operation], a.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", media)
	}
	name := s.operation + " " + s.example + " " + s.status
	lines := media == "application/x-ndjson" // lines are not one JSON value, which is all that the validator knows
	asked := a.asked(t, request)
	asked.Options.ExcludeRequestBody, asked.Options.ExcludeResponseBody = lines, lines
	invalid := openapi3filter.ValidateRequest(t.Context(), asked)
	if !lines && (invalid == nil) != (s.status < "400" || s.status == "404" || s.status == "409") {
		t.Errorf("%s: the request is valid: %v; %v", name, invalid == nil, invalid)
	}
	request.Body = io.NopCloser(bytes.NewReader(body)) // the validator has read it
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: response.StatusCode, Header: response.Header,
		Body: io.NopCloser(bytes.NewReader(answer)), Options: asked.Options,
	}); err != nil {
		t.Errorf("%s: the answer is not as described: %v\n%s", name, err, answer)
	}
	if found := regexp.MustCompile(`"token":"(\w+)"`).FindSubmatch(answer); found != nil {
		a.token = string(found[1])
	}
	if got := response.StatusCode; http.StatusText(got) == "" || s.status != text(got) {
		t.Errorf("%s: status %d: %s", name, got, answer)
		return
	}
	if s.example == "" {
		return
	}
	expected := op.Responses.Value(s.status)
	if expected == nil {
		t.Fatalf("%s: no such status", name)
	}
	for _, content := range expected.Value.Content {
		want := a.example(t, content, s)
		if got, want := settled(answer), settled(want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, indented(got), indented(want))
		}
	}
}

// asked is a request as the validator takes it.
func (a *api) asked(t *testing.T, r *http.Request) *openapi3filter.RequestValidationInput {
	t.Helper()
	route, parameters, err := a.router.FindRoute(r)
	if err != nil {
		t.Fatal(err)
	}
	return &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: parameters,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
}

func text(status int) string {
	raw, _ := json.Marshal(status)
	return string(raw)
}

// example is the one of that name, as JSON or, of another media type, as it is.
func (a *api) example(t *testing.T, content *openapi3.MediaType, s step) []byte {
	t.Helper()
	one := content.Examples[s.example]
	if one == nil {
		t.Fatalf("%s has no example %s for its body or the status %s", s.operation, s.example, s.status)
	}
	value := one.Value.Value
	if lines, ok := value.(string); ok {
		return []byte(lines)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var exampleToken = regexp.MustCompile(`0b5e7c4f1d9a48e6a3c2f0b1d4e5a697`)

// current puts the token of this run in the place of the example's.
func (a *api) current(raw []byte) []byte {
	return exampleToken.ReplaceAll(raw, []byte(a.token))
}

// withExamples is a path with the examples of its parameters, and of those behind the ?.
func withExamples(path string, op *openapi3.Operation) string {
	var query []string
	for _, p := range op.Parameters {
		if p.Value.Example == nil {
			continue
		}
		example := fmt.Sprint(p.Value.Example)
		if p.Value.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", example)
		} else {
			query = append(query, p.Value.Name+"="+example)
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path
}

// measured are the numbers that depend on the time.
var measured = []string{"oldest_age", "window", "avg_wait", "avg_run", "throughput"}

// settled is the value of JSON, line by line, without what differs each time.
func settled(raw []byte) (lines []any) {
	for line := range bytes.Lines(bytes.TrimSpace(raw)) {
		var v any
		if json.Unmarshal(line, &v) != nil {
			v = string(line)
		}
		lines = append(lines, settledValue(v))
	}
	return lines
}

var changing = regexp.MustCompile(`^([0-9a-f]{32}|20\d\d-\d\d-\d\dT.*)$`)

func settledValue(v any) any {
	switch v := v.(type) {
	case string:
		return changing.ReplaceAllString(v, "...")
	case []any:
		for i := range v {
			v[i] = settledValue(v[i])
		}
	case map[string]any:
		for _, name := range slices.Collect(maps.Keys(v)) {
			v[name] = settledValue(v[name])
			if slices.Contains(measured, name) {
				v[name] = "..."
			}
			if text, _ := v[name].(string); name == "instance" && strings.HasPrefix(text, "urn:dibs:request:") {
				delete(v, name) // the examples name no request
			}
		}
	}
	return v
}

func indented(v any) []byte {
	raw, _ := json.MarshalIndent(v, "", " ")
	return raw
}
