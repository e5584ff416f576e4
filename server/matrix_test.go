package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// These say how a call keeps the queues that a token may use apart from the others.
const (
	refuses  = "refuses"   // a call that names a queue: 403, whether there is such a queue or not
	hides    = "hides"     // a call that names a job or a schedule: 404, as if there were none
	skips    = "skips"     // a call that names several: as if those of other queues did not exist
	filters  = "filters"   // a call that lists everything: only what belongs to the token's queues
	byLease  = "by lease"  // a call for which only the token of the lease counts
	everyone = "everybody" // a call without a scope
	whole    = "whole"     // a call about all queues: 403 for a token of some
)

// sample is a request of a route. Words with $ are replaced: $QUEUE, $ID of a waiting job, $DONE of one that has
// ended, $HELD and $LEASE of a running one, $SCHEDULE.
type sample struct {
	path, body string
	apart      string
}

// samples has one for each route: a new route without one fails the tests.
var samples = map[string]sample{
	"POST /v1/jobs":        {"/v1/jobs", `{"queue":"$QUEUE","payload":1}`, refuses},
	"POST /v1/jobs/batch":  {"/v1/jobs/batch", `{"jobs":[{"queue":"$QUEUE"},{"queue":"$QUEUE","group":"g"}]}`, refuses},
	"POST /v1/jobs/stream": {"/v1/jobs/stream", `{"queue":"$QUEUE"}`, refuses},

	"POST /v1/claim":  {"/v1/claim", `{"queue":"$QUEUE","worker":"w","n":1}`, refuses},
	"POST /v1/extend": {"/v1/extend", `{"leases":[{"id":$HELD,"token":"$LEASE"}],"lease":60}`, byLease},
	"POST /v1/finish": {"/v1/finish", `{"outcomes":[{"id":$HELD,"token":"$LEASE","ending":"release"}]}`, byLease},

	"GET /v1/jobs":             {"/v1/jobs?queue=$QUEUE", "", refuses},
	"GET /v1/jobs/{id}":        {"/v1/jobs/$ID", "", hides},
	"GET /v1/jobs/{id}/wait":   {"/v1/jobs/$DONE/wait?timeout=60", "", hides},
	"GET /v1/jobs/{id}/before": {"/v1/jobs/$ID/before", "", hides},
	"GET /v1/jobs/{id}/steps":  {"/v1/jobs/$ID/steps", "", hides},
	"POST /v1/steps":           {"/v1/steps", `{"id":$HELD,"token":"$LEASE","step":"a","value":1}`, byLease},
	"POST /v1/steps/list":      {"/v1/steps/list", `{"id":$HELD,"token":"$LEASE"}`, byLease},
	"POST /v1/jobs/cancel":     {"/v1/jobs/cancel", `{"ids":[$ID,$HELD]}`, skips},
	"POST /v1/jobs/requeue":    {"/v1/jobs/requeue", `{"ids":[$DONE]}`, skips},
	"POST /v1/jobs/edit":       {"/v1/jobs/edit", `{"ids":[$ID],"priority":9}`, skips},
	"POST /v1/jobs/prune":      {"/v1/jobs/prune", `{"queue":"$QUEUE","older_than":0}`, refuses},

	"GET /v1/queues":                          {"/v1/queues", "", filters},
	"GET /v1/queues/{queue}":                  {"/v1/queues/$QUEUE", "", refuses},
	"PATCH /v1/queues/{queue}":                {"/v1/queues/$QUEUE", `{"concurrency":7}`, refuses},
	"DELETE /v1/queues/{queue}":               {"/v1/queues/$QUEUE", "", refuses},
	"GET /v1/queues/{queue}/groups":           {"/v1/queues/$QUEUE/groups", "", refuses},
	"PATCH /v1/queues/{queue}/groups/{group}": {"/v1/queues/$QUEUE/groups/g", `{"limit":3}`, refuses},
	"GET /v1/stats":                           {"/v1/stats", "", filters},
	"GET /v1/workers":                         {"/v1/workers", "", filters},

	"GET /v1/schedules":                 {"/v1/schedules", "", filters},
	"GET /v1/schedules/{schedule}":      {"/v1/schedules/$SCHEDULE", "", hides},
	"PUT /v1/schedules/{schedule}":      {"/v1/schedules/$SCHEDULE", `{"spec":"@every 2h","queue":"$QUEUE"}`, refuses},
	"PATCH /v1/schedules/{schedule}":    {"/v1/schedules/$SCHEDULE", `{"paused":true}`, hides},
	"DELETE /v1/schedules/{schedule}":   {"/v1/schedules/$SCHEDULE", "", hides},
	"POST /v1/schedules/{schedule}/run": {"/v1/schedules/$SCHEDULE/run", "", hides},
	"GET /v1/schedules/{schedule}/next": {"/v1/schedules/$SCHEDULE/next", "", hides},

	"GET /healthz":      {"/healthz", "", everyone},
	"GET /readyz":       {"/readyz", "", everyone},
	"GET /metrics":      {"/metrics", "", whole},
	"GET /openapi.json": {"/openapi.json", "", everyone},
}

var scopes = []server.Scope{server.ScopeEnqueue, server.ScopeWork, server.ScopeRead, server.ScopeAdmin}

// guarded is a server with tokens.
type guarded struct {
	t      *testing.T
	db     admin.Database
	server *server.Server
	url    string
	list   *strings.Builder // the tokens' lines
	tokens *server.Tokens
}

func startGuarded(t *testing.T, db admin.Database) *guarded {
	g := &guarded{t: t, db: db, list: &strings.Builder{}}
	g.token("unused", "read:nothing")
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "dibs_up 1\n") })
	g.server, g.url = start(t, db, server.Options{Tokens: g.tokens, Metrics: page})
	return g
}

// token adds a token, whose holder may do what the scopes say.
func (g *guarded) token(name string, scopes ...string) string {
	g.t.Helper()
	token, line, err := server.NewToken(name, scopes...)
	if err == nil {
		g.list.WriteString(line + "\n")
		if g.tokens == nil {
			g.tokens, err = server.ParseTokens(g.list.String())
		} else {
			err = g.tokens.Replace(g.list.String())
		}
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// send sends a sample, filled with values.
func (g *guarded) send(rt server.Route, with *strings.Replacer, authorization ...string) (int, http.Header, string) {
	g.t.Helper()
	s := samples[rt.Method+" "+rt.Pattern]
	r, err := http.NewRequestWithContext(g.t.Context(), rt.Method, g.url+with.Replace(s.path), strings.NewReader(with.Replace(s.body)))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header["Authorization"] = authorization
	if r.Header.Set("Content-Type", "application/json"); strings.HasSuffix(s.path, "stream") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

// furnish fills a queue with what the samples name.
func (g *guarded) furnish(queue string) *strings.Replacer {
	g.t.Helper()
	ctx := g.t.Context()
	var made []dibs.Enqueued
	var claimed []*dibs.RawJob
	must := func(f ...func() error) {
		g.t.Helper()
		for _, f := range f {
			if err := f(); err != nil {
				g.t.Fatal(err)
			}
		}
	}
	must(
		func() (err error) {
			made, err = g.db.Enqueue(ctx, []dibs.NewJob{{Queue: queue, Kind: "k"}, {Queue: queue, Kind: "k"}, {Queue: queue, Kind: "k", Payload: "of " + queue, Delay: time.Hour}})
			return err
		},
		func() (err error) {
			claimed, err = g.db.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: "worker of " + queue, N: 2, Lease: time.Hour})
			return err
		},
		func() error { return g.db.Finish(ctx, []dibs.Outcome{claimed[0].Lease().Complete(nil)}) },
		func() error {
			_, err := g.db.Enqueue(ctx, []dibs.NewJob{{Queue: queue, Kind: "k"}})
			return err
		},
		func() error {
			_, err := g.db.SetSchedule(ctx, dibs.Schedule{Name: "tick-" + queue, Spec: "@every 1h", Queue: queue, Kind: "k"})
			return err
		},
		func() error {
			limit := 2
			return g.db.ChangeGroup(ctx, queue, "g", dibs.GroupChange{Limit: &limit}.Apply)
		},
		func() error {
			return g.db.Register(ctx, dibs.WorkerInfo{ID: workerID(queue), Name: "worker of " + queue, Queues: []string{queue}, Concurrency: 1, State: dibs.WorkerWorking})
		},
	)
	return strings.NewReplacer("$QUEUE", queue, "$SCHEDULE", "tick-"+queue, "$DONE", fmt.Sprint(claimed[0].ID), "$HELD", fmt.Sprint(claimed[1].ID),
		"$LEASE", claimed[1].Token.String(), "$ID", fmt.Sprint(made[2].ID))
}

// nowhere names nothing that there is.
var nowhere = strings.NewReplacer("$QUEUE", "nowhere", "$SCHEDULE", "tick-nowhere", "$DONE", "999999", "$HELD", "999998", "$LEASE", strings.Repeat("a", 32), "$ID", "999997")

// picture is all that can be seen of a queue.
func (g *guarded) picture(queue string) string {
	g.t.Helper()
	ctx := g.t.Context()
	var all []any
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		page, err := g.db.List(ctx, admin.Filter{Queue: queue, State: state})
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, page.Jobs)
	}
	groups, err := g.db.Groups(ctx, queue)
	if err != nil {
		g.t.Fatal(err)
	}
	schedules, err := g.db.Schedules(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	queues, err := g.db.Queues(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	schedules = slices.DeleteFunc(schedules, func(s dibs.Schedule) bool { return !strings.HasSuffix(s.Name, queue) })
	queues = slices.DeleteFunc(queues, func(q dibs.Queue) bool { return q.Name != queue })
	text, err := json.Marshal(append(all, groups, schedules, queues))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// Each scope on each route, without and with queues. What a token may not do changes nothing, and an answer
// about another's queue is the same as about one that does not exist.
func TestEachTokenMayDoWhatItsScopesSay(t *testing.T) {
	needs.Long(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		g := startGuarded(t, db)
		all := map[server.Scope]string{}
		for _, scope := range scopes {
			all[scope] = g.token("all-"+string(scope), string(scope))
		}
		known := map[string]bool{}
		for i, rt := range g.server.Routes() {
			call := rt.Method + " " + rt.Pattern
			known[call] = true
			if _, there := samples[call]; !there {
				t.Errorf("%s has no sample here: how does it keep queues apart?", call)
				continue
			}
			t.Run(strings.NewReplacer("/", "_", " ", "").Replace(call), func(t *testing.T) {
				g := &guarded{t: t, db: db, server: g.server, url: g.url, tokens: g.tokens, list: g.list}
				g.matrix(rt, all, i)
			})
		}
		for call := range samples {
			if !known[call] {
				t.Errorf("there is no route %s", call)
			}
		}
	})
}

func (g *guarded) matrix(rt server.Route, all map[server.Scope]string, i int) {
	mine := fmt.Sprintf("mine-%d", i)
	own := g.furnish(mine)
	if rt.Scope == "" {
		if status, _, body := g.send(rt, own); status != http.StatusOK {
			g.t.Errorf("without a token: %d %s", status, body)
		}
		return
	}
	before := g.picture(mine)
	for _, wrong := range [][]string{nil, {"Bearer " + strings.Repeat("x", 30)}, {"Basic " + all[rt.Scope]}, {"Bearer"}, {all[rt.Scope]}, {"Bearer " + all[rt.Scope], "Bearer " + all[rt.Scope]}, {"Bearer " + all[rt.Scope] + "x"}, {"Bearer " + strings.Repeat("x", 9000)}} {
		status, header, body := g.send(rt, own, wrong...)
		if status != http.StatusUnauthorized || !strings.HasPrefix(header.Get("Www-Authenticate"), "Bearer realm=") || strings.Contains(body, "all-") {
			g.t.Errorf("with %.60q: %d, %s, %s", wrong, status, header.Get("Www-Authenticate"), body)
		}
	}
	for _, scope := range scopes {
		if scope == rt.Scope || scope == server.ScopeAdmin {
			continue
		}
		status, header, body := g.send(rt, own, "Bearer "+all[scope])
		if status != http.StatusForbidden || !strings.Contains(header.Get("Www-Authenticate"), `error="insufficient_scope", scope="`+string(rt.Scope)+`"`) {
			g.t.Errorf("with the scope %s: %d %s", scope, status, body)
		}
	}
	if now := g.picture(mine); now != before {
		g.t.Errorf("requests that were refused have changed something:\n%s\n%s", before, now)
	}
	letters := fmt.Sprintf("%c%c-", 'a'+i/26, 'a'+i%26) // a number might be the id of a job, which plain replaces
	for _, scope := range slices.Compact([]server.Scope{rt.Scope, server.ScopeAdmin}) {
		g.apart(rt, string(scope), "mine-"+letters+string(scope), "theirs-"+letters+string(scope))
	}
	status, _, body := g.send(rt, own, "Bearer "+all[server.ScopeAdmin])
	if !allowed(rt, status, body) {
		g.t.Errorf("with the scope admin: %d %s", status, body)
	}
}

// allowed reports whether a request was let through to the database, which keeps a queue that is in use.
func allowed(rt server.Route, status int, body string) bool {
	if rt.Method+" "+rt.Pattern == "DELETE /v1/queues/{queue}" {
		return status == http.StatusConflict && strings.Contains(body, "#queue-in-use")
	}
	return status < 300 && !strings.Contains(body, "problem")
}

// apart tries a token for one queue on that and on another.
func (g *guarded) apart(rt server.Route, scope, mine, theirs string) {
	own, other := g.furnish(mine), g.furnish(theirs)
	token := "Bearer " + g.token(scope+"-"+mine, scope+":"+mine)
	s := samples[rt.Method+" "+rt.Pattern]
	if s.apart == whole {
		if status, _, body := g.send(rt, own, token); status != http.StatusForbidden || strings.Contains(body, "dibs_up") {
			g.t.Errorf("%s for one queue: %d %s", scope, status, body)
		}
		return
	}
	before := g.picture(theirs)
	status, _, body := g.send(rt, other, token)
	switch want := map[string]int{refuses: 403, hides: 404, skips: 200, filters: 200}[s.apart]; {
	case s.apart == byLease: // the other's lease was given away, with its token
		if status != http.StatusOK {
			g.t.Errorf("with the token of the lease: %d %s", status, body)
		}
		before = g.picture(theirs)
	case strings.HasSuffix(s.path, "stream"):
		if status != 200 || !strings.Contains(body, `"status":403`) || strings.Contains(body, `"id"`) {
			g.t.Errorf("%s on the other's queue: %d %s", scope, status, body)
		}
	case status != want:
		g.t.Errorf("%s on the other's queue: %d %s, want %d", scope, status, body, want)
	case s.apart == filters && strings.Contains(body, "theirs"):
		g.t.Errorf("%s shows the other's: %s", scope, body)
	case s.apart == filters && !strings.Contains(body, mine):
		g.t.Errorf("%s does not show its own: %s", scope, body)
	}
	if s.apart == refuses || s.apart == hides || s.apart == skips {
		none, _, nothing := g.send(rt, nowhere, token)
		if plain(body, theirs, other.Replace("$ID $DONE $HELD")) != plain(nothing, "nowhere", nowhere.Replace("$ID $DONE $HELD")) || status != none {
			g.t.Errorf("%s tells the other's queue from none: %d %s, and %d %s", scope, status, body, none, nothing)
		}
	}
	if now := g.picture(theirs); now != before {
		g.t.Errorf("%s has changed the other's queue:\n%s\n%s", scope, before, now)
	}
	if status, _, body = g.send(rt, own, token); !allowed(rt, status, body) {
		g.t.Errorf("%s on its own queue: %d %s", scope, status, body)
	}
}

// plain is an answer without the names that the request gave.
func plain(body, queue, ids string) string {
	body = strings.ReplaceAll(body, queue, "QUEUE")
	body = regexp.MustCompile(`"status":\d+`).ReplaceAllString(body, "") // a job may have the id 403
	for _, id := range strings.Fields(ids) {
		body = strings.ReplaceAll(body, id, "ID")
	}
	return regexp.MustCompile(`request:\w+`).ReplaceAllString(body, "request:ID")
}

// workerID is a worker's id, the same for the same queue.
func workerID(queue string) (id dibs.Token) {
	copy(id[:], fmt.Sprintf("%16s", queue))
	return id
}
