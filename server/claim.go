package server

import (
	"errors"
	"net/http"
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
	Kinds  []string      `json:"kinds"`
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
	jobs, err := s.claimFor(r, request, wait)
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
		done, err := s.wait(r)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return s.hub.claim(r.Context(), request, wait)
}

// handOver writes claimed jobs. If the client is gone it gives them back, uncounted, since
// otherwise nobody runs them before their leases end. Their number of bytes is sent first, so a
// client that has not got the last byte knows that.
func (s *Server) handOver(w http.ResponseWriter, r *http.Request, jobs []*dibs.RawJob) error {
	err := r.Context().Err()
	if err == nil {
		for _, j := range jobs {
			checks.Payload(j)
		}
		text := pack(w, encoded(claimAnswer{list(jobs)}))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if _, err = w.Write(text); err == nil {
			err = http.NewResponseController(w).Flush()
		}
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		if err := s.hub.giveBack(jobs); err != nil {
			s.log(r.Pattern, err)
		}
	}
	return nil
}
