package server

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/wire"
)

// document is the description, as far as these tests look at it.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	OperationID string
	Summary     string
	Security    []map[string][]string
	RequestBody *struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref        string `json:"$ref"`
	AllOf      []schema
	Properties map[string]json.RawMessage
	Required   []string
	Closed     *bool `json:"additionalProperties"`
	Enum       []string
}

func described(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(descriptionJSON(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryRouteIsDescribedWithItsScope(t *testing.T) {
	t.Parallel()
	d := described(t)
	var routes []string
	ids := map[string]bool{}
	for _, rt := range new(Server).routes() {
		routes = append(routes, rt.method+" "+rt.pattern)
		op, found := d.Paths[rt.pattern][strings.ToLower(rt.method)]
		if !found {
			t.Errorf("%s %s is not described", rt.method, rt.pattern)
			continue
		}
		if op.Summary == "" || op.OperationID == "" || ids[op.OperationID] {
			t.Errorf("%s %s needs a summary and an id of its own", rt.method, rt.pattern)
		}
		ids[op.OperationID] = true
		want := []map[string][]string{{}}
		if rt.scope != "" {
			want = append(want, map[string][]string{"token": {string(rt.scope)}})
		}
		if !reflect.DeepEqual(op.Security, want) {
			t.Errorf("%s %s needs the scope %q, and is described with %v", rt.method, rt.pattern, rt.scope, op.Security)
		}
	}
	for path, operations := range d.Paths {
		for method := range operations {
			if !slices.Contains(routes, strings.ToUpper(method)+" "+path) {
				t.Errorf("%s %s is described, but no route", method, path)
			}
		}
	}
}

// fields lists the properties of a schema, and whether it refuses others.
func (d document) fields(s schema) (names []string, closed bool) {
	if s.Ref != "" {
		return d.fields(d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")])
	}
	closed = s.Closed != nil && !*s.Closed
	for name := range s.Properties {
		names = append(names, name)
	}
	for _, part := range s.AllOf {
		more, partClosed := d.fields(part)
		names, closed = append(names, more...), closed || partClosed
	}
	return names, closed
}

// jsonFields lists the fields that encoding/json reads and writes.
func jsonFields(of reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	d := described(t)
	for name, of := range map[string]any{
		"NewJob": wire.NewJob{}, "Enqueued": dibs.Enqueued{}, "StreamedJob": streamed{}, "ClaimRequest": claimRequest{},
		"Job": dibs.RawJob{}, "AttemptError": dibs.AttemptError{}, "Progress": dibs.Progress{}, "Lease": leaseToExtend{},
		"ExtendedLease": extendedLease{}, "Outcome": outcomeToFinish{}, "FinishedJob": finishedJob{}, "Page": admin.Page{},
		"Rate": wire.Rate{}, "RateChange": wire.Rate{}, "Backoff": wire.Backoff{}, "BackoffChange": wire.Backoff{},
		"Queue": wire.Queue{}, "QueueChange": wire.Settings{}, "Group": wire.Group{}, "Stats": wire.Stats{}, "Worker": dibs.WorkerInfo{},
		"Schedule": wire.Schedule{}, "ScheduleChange": scheduleBody{}, "Problem": Problem{}, "IDs": idsRequest{}, "ChangedIDs": idsAnswer{},
		"StepDone": dibs.StepDone{},
	} {
		got, _ := d.fields(d.Components.Schemas[name])
		want := jsonFields(reflect.TypeOf(of))
		if name == "Job" { // only the schema ClaimedJob has the token
			want = slices.DeleteFunc(want, func(f string) bool { return f == "token" })
		}
		sameNames(t, name, got, want)
	}
	bodies := map[string]any{
		"enqueueJobs": struct {
			Jobs rawList `json:"jobs"`
		}{}, "extendLeases": extendRequest{}, "finishJobs": finishRequest{}, "writeStep": stepToWrite{}, "listHeldSteps": heldJob{}, "editJobs": editRequest{}, "pruneJobs": pruneRequest{}, "changeGroup": groupSettings{},
	}
	answers := map[string]any{
		"enqueueJobs": enqueuedBatch{}, "claimJobs": claimAnswer{}, "extendLeases": extendedBatch{}, "finishJobs": finishedBatch{},
		"writeStep": writtenStep{}, "listHeldSteps": stepsAnswer{}, "getSteps": stepsAnswer{},
		"cancelJobs": cancelAnswer{}, "pruneJobs": pruneAnswer{}, "listQueues": queuesAnswer{}, "listGroups": groupsAnswer{}, "getStats": statsAnswer{},
		"listWorkers": workersAnswer{}, "listSchedules": schedulesAnswer{}, "nextTicks": ticksAnswer{},
	}
	for path, operations := range d.Paths {
		for method, op := range operations {
			if op.RequestBody != nil && op.OperationID != "streamJobs" {
				got, closed := d.fields(op.RequestBody.Content["application/json"].Schema)
				if !closed {
					t.Errorf("%s %s refuses fields that it does not know, and does not say so", method, path)
				}
				if of, own := bodies[op.OperationID]; own {
					sameNames(t, "the body of "+op.OperationID, got, jsonFields(reflect.TypeOf(of)))
				}
			}
			if of, own := answers[op.OperationID]; own {
				got, _ := d.fields(op.Responses["200"].Content["application/json"].Schema)
				sameNames(t, "the answer of "+op.OperationID, got, jsonFields(reflect.TypeOf(of)))
			}
		}
	}
}

func sameNames(t *testing.T, of string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s is described with %v, and has %v", of, got, want)
	}
}

// Fields that are always written are required, and the others are not.
func TestSchemasRequireWhatIsAlwaysThere(t *testing.T) {
	t.Parallel()
	d := described(t)
	for name, of := range map[string]any{
		"Enqueued": dibs.Enqueued{}, "StreamedJob": struct {
			Line int `json:"line"`
		}{}, "Job": dibs.RawJob{}, "AttemptError": dibs.AttemptError{}, "ExtendedLease": extendedLease{}, "FinishedJob": finishedJob{},
		"StepDone": dibs.StepDone{}, "Page": admin.Page{}, "Rate": wire.Rate{}, "Backoff": wire.Backoff{}, "Queue": wire.Queue{}, "Group": wire.Group{}, "Stats": wire.Stats{},
		"Worker": dibs.WorkerInfo{}, "Problem": Problem{}, "Schedule": wire.Schedule{},
	} {
		var want []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && tag != "" && tag != "-" && options == "" && !slices.Contains(want, tag) {
				want = append(want, tag)
			}
		}
		sameNames(t, "required of "+name, d.Components.Schemas[name].Required, want)
	}
}

// Each limit of the description is the library's.
func TestLimitsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	text := string(description)
	for pattern, want := range map[string]int{
		`maxItems: (\d{5})\b`:                          dibs.MaxBatch,
		`maxItems: (\d{6})`:                            dibs.MaxAfter,
		`minimum: 0, maximum: (\d+), default: 255`:     dibs.MaxPriority,
		`maximum: 32767, default: (\d+)`:               dibs.DefaultPriority,
		`unique_key: \{type: string, maxLength: (\d+)`: dibs.MaxUniqueKey,
		`Name:\n.*\n.*\n      maxLength: (\d+)`:        dibs.MaxName,
		`kind: \{type: string, maxLength: (\d+)`:       dibs.MaxName,
		`spec: \{type: string, maxLength: (\d+)`:       dibs.MaxSpec,
		`missed_limit: .*maximum: (\d+)`:               dibs.MaxMissed,
		`payload_limit: .*maximum: (\d+)`:              dibs.MaxPayloadLimit,
		`errors: \{type: array, maxItems: (\d+)`:       dibs.MaxErrors,
		`at most (\d+) KiB`:                            dibs.MaxMetadata >> 10,
		`cut to (\d+) KiB`:                             dibs.MaxErrorText >> 10,
		`Cut to (\d+) bytes`:                           dibs.MaxProgressText,
		`at most (\d+) s`:                              int(maxWait / time.Second),
		`NewJob in JSON, of ([\d,]+) bytes`:            maxLine,
		`up to ([\d,]+) at once`:                       streamJobs,
	} {
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
		if len(all) == 0 {
			t.Errorf("%s is nowhere", pattern)
		}
		for _, found := range all {
			var got int
			if err := json.Unmarshal([]byte(strings.ReplaceAll(found[1], ",", "")), &got); err != nil || got != want {
				t.Errorf("%s: %s, want %d", pattern, found[1], want)
			}
		}
	}
}

// Every kind of problem is listed in the description, and has a heading of its own in the page.
func TestEveryProblemIsDescribed(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/howto/http.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, found := range regexp.MustCompile(`= kind\{"([a-z-]+)"`).FindAllStringSubmatch(string(code), -1) {
		want = append(want, problemTypes+found[1])
		if !strings.Contains(string(page), "\n### "+found[1]+"\n") {
			t.Errorf("the page of problems has no heading %s", found[1])
		}
	}
	var problem struct{ Type schema }
	if err := json.Unmarshal(described(t).Components.Schemas["Problem"].Properties["type"], &problem.Type); err != nil {
		t.Fatal(err)
	}
	sameNames(t, "Problem.type", problem.Type.Enum, want)
}
