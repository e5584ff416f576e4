package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// claimRequest is a dibs.ClaimRequest as a request gives it.
type claimRequest struct {
	Queue  string        `json:"queue"`
	Worker string        `json:"worker"`
	N      *int          `json:"n"`
	Kinds  kindList      `json:"kinds"`
	Lease  *wire.Seconds `json:"lease"`
	Wait   *wire.Seconds `json:"wait"`
}

type claimAnswer struct {
	Jobs []*dibs.RawJob `json:"jobs"`
}

// claim gives jobs to the caller, and waits for some if none is due.
func (s *Server) claim(w http.ResponseWriter, r *http.Request) error {
	var body claimRequest
	if err := readBody(r, &body); err != nil {
		return err
	}
	request := dibs.ClaimRequest{Queue: body.Queue, Worker: body.Worker, N: 1, Kinds: body.Kinds}
	if request.Queue == "" {
		request.Queue = dibs.DefaultQueue
	}
	if body.N != nil {
		request.N = *body.N
	}
	if body.Lease != nil {
		request.Lease = time.Duration(*body.Lease)
	}
	var wait time.Duration
	if body.Wait != nil {
		var err error
		if wait, err = waitTime("wait", time.Duration(*body.Wait)); err != nil {
			return err
		}
	}
	if err := checks.Claim(&request); err != nil {
		return err
	}
	if err := s.mayUse(r, request.Queue); err != nil {
		return err
	}
	end := s.guests.claims(r, request)
	jobs, err := s.claimFor(r, request, wait)
	end(jobs, time.Now())
	if err != nil {
		return err
	}
	return s.handOver(w, r, jobs)
}

func (s *Server) claimFor(r *http.Request, request dibs.ClaimRequest, wait time.Duration) ([]*dibs.RawJob, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.work.Done()
	if wait > 0 {
		done, err := s.waitSeat(r)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	jobs, err := s.hub.claim(r.Context(), request, wait, roomOf(r))
	if err == nil && wait > 0 {
		if err = s.stillMay(r, request.Queue); err != nil {
			s.hub.putBack(jobs)
		}
	}
	return jobs, err
}

// handOver writes claimed jobs. If the client is gone, it gives the jobs back, uncounted, since
// otherwise nobody would run them before their leases end. The length of the answer is sent
// first, so that a client knows if the end is missing.
func (s *Server) handOver(w http.ResponseWriter, r *http.Request, jobs []*dibs.RawJob) error {
	err := r.Context().Err()
	if err == nil {
		for _, j := range jobs {
			checks.Payload(j)
		}
		text := encoded(claimAnswer{list(jobs)})
		for i, j := range jobs { // keep only what giving back needs: the rest is in the text
			jobs[i] = &dibs.RawJob{ID: j.ID, Token: j.Token}
		}
		if err := roomOf(r).set(len(text)); err != nil {
			s.takeBack(jobs)
			return err
		}
		text = pack(w, text)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if _, err = w.Write(text); err == nil {
			err = http.NewResponseController(w).Flush()
		}
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.takeBack(jobs)
	}
	return nil
}

// takeBack gives back jobs that could not be handed over.
func (s *Server) takeBack(jobs []*dibs.RawJob) {
	for _, j := range jobs {
		s.guests.ended(j.ID, j.Token)
	}
	s.hub.putBack(jobs)
}

// claimSome claims until it has as many jobs as were asked for, a large answer, or as much as there is
// memory for. It goes on when the client is gone, as a claim that is broken off may have taken jobs.
func (h *hub) claimSome(r dibs.ClaimRequest, to *room) (a claimed) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if a.err = to.free(); a.err != nil {
		return a
	}
	most := r.N
	for {
		r.N = nextLoad(a.jobs, most)
		var jobs []*dibs.RawJob
		err := h.load(ctx, r.N, func() (err error) {
			if jobs, err = h.db.Claim(ctx, r); err != nil {
				return err
			}
			if err = to.set(memory(a.jobs) + memory(jobs)); err != nil {
				h.putBack(jobs)
				jobs = nil
			}
			return err
		})
		a.add(jobs)
		a.full = err == nil && len(jobs) == r.N
		switch {
		case err != nil && len(a.jobs) == 0:
			a.err = err
			return a
		case !a.full, nextLoad(a.jobs, most) == 0:
			return a
		}
	}
}

// add adds jobs that were claimed after the first ones. On a slow machine the lease of a job may have ended in
// between, and the job been claimed once more: then only the later claim holds it.
func (a *claimed) add(jobs []*dibs.RawJob) {
	a.jobs = slices.DeleteFunc(a.jobs, func(old *dibs.RawJob) bool {
		return slices.ContainsFunc(jobs, func(j *dibs.RawJob) bool { return j.ID == old.ID })
	})
	a.jobs = append(a.jobs, jobs...)
}

// giveBack releases jobs that have not reached their client: otherwise nobody would run them before their leases end.
func (h *hub) giveBack(jobs []*dibs.RawJob) error {
	if len(jobs) == 0 {
		return nil
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := h.db.Finish(ctx, outcomes); err != nil {
		return fmt.Errorf("%d jobs claimed for a client that does not get them keep their leases, as they could not be given back: %w", len(jobs), err)
	}
	return nil
}

// putBack is giveBack for callers to whom no error can be returned: the error is logged.
func (h *hub) putBack(jobs []*dibs.RawJob) {
	if err := h.giveBack(jobs); err != nil {
		h.log.Warn("call to the database failed", "call", "finish", "error", err.Error())
	}
}
