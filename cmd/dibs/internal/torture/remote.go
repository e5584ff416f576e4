package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/server"
)

// Each worker process serves its database over HTTP, to the next seat: that one's calls fail when
// this process is killed or stopped.

// serve serves the database over HTTP until ctx ends, and leaves the address for other processes.
func (c *client) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	path := addressFile(c.Dir, c.Seat)
	if err := os.WriteFile(path+".new", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dibsServer := server.New(c.raw, server.Options{})
	web := &http.Server{Handler: dibsServer, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() {
		_ = dibsServer.Close() // answers the calls that wait
		_ = web.Close()
	})
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// addressFile holds the address of the HTTP server of a seat's last process.
func addressFile(dir string, seat int) string {
	return filepath.Join(dir, fmt.Sprintf("worker-%d.address", seat+1))
}

// remote makes the calls of a program without dibs over HTTP, and all others itself.
type remote struct {
	admin.Database
	file string // with the server's address
	http *http.Client
}

// remote calls the server of a worker's seat.
func (c *client) remote(seat int) *remote {
	return &remote{Database: c.raw, file: addressFile(c.Dir, seat), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}}
}

// answer is the body of any answer.
type answer struct {
	Jobs     json.RawMessage `json:"jobs"`
	Leases   []answerOfJob   `json:"leases"`
	Outcomes []answerOfJob   `json:"outcomes"`
	Steps    []dibs.StepDone `json:"steps"`
	Field    string          `json:"field"`
	Reason   string          `json:"reason"`
	Detail   string          `json:"detail"`
}

// answerOfJob is what became of one lease or outcome.
type answerOfJob struct {
	ID        int64 `json:"id"`
	Cancelled bool  `json:"cancelled"`
	Finishing bool  `json:"finishing"`
	TimedOut  bool  `json:"timed_out"`
	Problem   *struct {
		Status int `json:"status"`
	} `json:"problem"`
}

// post makes a call. Without an answer, or with one that says so, it is not known whether the call
// took effect.
func (s *remote) post(ctx context.Context, path string, body any) (a answer, err error) {
	address, err := os.ReadFile(s.file)
	if err != nil {
		return a, fmt.Errorf("no server yet: %w", dibs.ErrUnavailable)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+string(address)+"/v1/"+path, bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := s.http.Do(r)
	if err != nil {
		return a, unanswered(ctx, err)
	}
	defer got.Body.Close()
	text, err = io.ReadAll(got.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	switch {
	case err != nil, got.StatusCode == http.StatusServiceUnavailable && a.Outcomes == nil:
		return a, unanswered(ctx, errors.Join(err, errors.New(a.Detail)))
	case got.StatusCode == http.StatusUnprocessableEntity:
		return a, &dibs.InvalidError{Field: a.Field, Reason: a.Reason}
	case got.StatusCode == http.StatusConflict && a.Leases == nil && a.Outcomes == nil:
		return a, dibs.ErrLeaseLost
	case got.StatusCode >= 300 && a.Leases == nil && a.Outcomes == nil:
		return a, fmt.Errorf("%s: %s: %s", path, got.Status, a.Detail)
	}
	return a, nil
}

func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
}

// Enqueue implements admin.Database.
func (s *remote) Enqueue(ctx context.Context, jobs []dibs.NewJob) (out []dibs.Enqueued, err error) {
	list, err := wired(jobs)
	if err != nil {
		return nil, err
	}
	a, err := s.post(ctx, "jobs/batch", map[string]any{"jobs": list})
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(a.Jobs, &out)
	return out, err
}

// wired are the jobs as JSON gives them.
func wired(jobs []dibs.NewJob) ([]wire.NewJob, error) {
	list := make([]wire.NewJob, len(jobs))
	for i, j := range jobs {
		text, err := json.Marshal(j.Payload)
		if err != nil {
			return nil, err
		}
		list[i] = wire.NewJob{
			Queue: j.Queue, Kind: j.Kind, Payload: text, Priority: j.Priority, Group: j.Group, UniqueKey: j.UniqueKey, UniqueUntil: j.UniqueUntil, Ref: j.Ref,
		}
		if j.Delay > 0 {
			list[i].Delay = (*wire.Seconds)(&j.Delay)
		}
		if j.MaxAttempts > 0 {
			list[i].MaxAttempts = &j.MaxAttempts
		}
		for _, d := range j.After {
			list[i].After = append(list[i].After, wire.Dep{Ref: d.Ref, ID: d.ID, On: d.On})
		}
	}
	return list, nil
}

// Steps implements dibs.StepStore.
func (s *remote) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	a, err := s.post(ctx, "steps/list", l)
	return a.Steps, err
}

// PutStep implements dibs.StepStore.
func (s *remote) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	_, err := s.post(ctx, "steps", map[string]any{"id": l.ID, "token": l.Token, "step": name, "value": value})
	return err
}

// oneClaim is the most jobs for which the server makes one claim: with one token, as records have it.
const oneClaim = 32

// Claim implements dibs.Store.
func (s *remote) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	a, err := s.post(ctx, "claim", map[string]any{"queue": r.Queue, "worker": r.Worker, "n": r.N, "wait": 0.05})
	if err != nil {
		return nil, err
	}
	var jobs []*dibs.RawJob
	if err := json.Unmarshal(a.Jobs, &jobs); err != nil {
		return nil, err
	}
	return jobs, nil
}

// Extend implements dibs.Store.
func (s *remote) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (e dibs.Extended, err error) {
	a, err := s.post(ctx, "extend", map[string]any{"leases": leases, "lease": wire.Seconds(d)})
	if err != nil {
		return e, err
	}
	for _, l := range a.Leases {
		switch {
		case l.Problem != nil:
			e.Lost = append(e.Lost, l.ID)
		case l.Finishing:
			e.Finishing = append(e.Finishing, l.ID)
		case l.Cancelled:
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		if l.TimedOut {
			e.TimedOut = append(e.TimedOut, l.ID)
		}
	}
	return e, nil
}

// Finish implements dibs.Store.
func (s *remote) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	type outcome struct {
		dibs.Outcome
		Delay *wire.Seconds `json:"delay,omitempty"`
		Add   []wire.NewJob `json:"add,omitempty"`
	}
	list := make([]outcome, len(outcomes))
	for i, o := range outcomes {
		add, err := wired(o.Add)
		if err != nil {
			return err
		}
		list[i] = outcome{o, (*wire.Seconds)(o.Delay), add}
	}
	a, err := s.post(ctx, "finish", map[string]any{"outcomes": list})
	if err != nil {
		return err
	}
	refused := &dibs.FinishError{Err: dibs.ErrUnavailable}
	for _, o := range a.Outcomes {
		switch {
		case o.Problem == nil:
		case o.Problem.Status == http.StatusConflict:
			refused.Lost = append(refused.Lost, o.ID)
		default:
			refused.Unwritten = append(refused.Unwritten, o.ID)
		}
	}
	if len(refused.Lost)+len(refused.Unwritten) == 0 {
		return nil
	}
	return refused
}
