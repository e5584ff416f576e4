package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// leaseToExtend is a dibs.Lease as a request gives it.
type leaseToExtend struct {
	ID       wire.ID        `json:"id"`
	Token    dibs.Token     `json:"token"`
	Progress *dibs.Progress `json:"progress"`
}

type extendRequest struct {
	Leases rawList       `json:"leases"` // each is a leaseToExtend
	Lease  *wire.Seconds `json:"lease"`
}

// extendedLease says what became of one lease.
type extendedLease struct {
	ID        int64    `json:"id"`
	Cancelled bool     `json:"cancelled,omitempty"` // somebody asked to cancel the job
	TimedOut  bool     `json:"timed_out,omitempty"` // the attempt has run longer than its queue allows
	Finishing bool     `json:"finishing,omitempty"` // not extended: an open transaction is finishing the job
	Problem   *Problem `json:"problem,omitempty"`   // why the lease was not extended
}

// extend lengthens leases. If some were lost, the answer is a problem that lists all leases.
func (s *Server) extend(w http.ResponseWriter, r *http.Request) error {
	var body extendRequest
	switch err := readBody(r, &body); {
	case err != nil:
		return err
	case body.Leases == nil:
		return missing("leases")
	case body.Lease == nil:
		return missing("lease")
	}
	leases := make([]dibs.Lease, len(body.Leases))
	answers := make([]extendedLease, len(leases))
	at := make(map[int64]*extendedLease, len(leases))
	for i, raw := range body.Leases {
		if err := r.Context().Err(); err != nil {
			return err // the client is gone
		}
		var l leaseToExtend
		if err := readObject(fmt.Sprintf("leases[%d]", i), raw, &l); err != nil {
			return err
		}
		leases[i] = dibs.Lease{ID: int64(l.ID), Token: l.Token, Progress: l.Progress}
		answers[i].ID = int64(l.ID)
		at[int64(l.ID)] = &answers[i]
	}
	done, err := s.db.Extend(r.Context(), leases, time.Duration(*body.Lease))
	if err != nil {
		return err
	}
	for _, id := range done.Cancelled {
		at[id].Cancelled = true
	}
	for _, id := range done.TimedOut {
		at[id].TimedOut = true
	}
	for _, id := range done.Finishing {
		at[id].Finishing = true
	}
	for _, id := range done.Lost {
		p := leaseLost.problem("its lease had ended, or it was taken or finished")
		at[id].Problem = &p
	}
	for _, l := range leases {
		if at[l.ID].Problem != nil {
			s.guests.ended(l.ID, l.Token)
		} else {
			s.guests.extended(l, time.Duration(*body.Lease), time.Now())
		}
	}
	if len(done.Lost) == 0 {
		return reply(w, http.StatusOK, extendedBatch{Leases: answers})
	}
	p := leaseLost.problem(fmt.Sprintf("%d of %d leases were not extended", len(done.Lost), len(leases)))
	p.Instance = instanceOf(r)
	return replyProblem(w, p.Status, struct {
		Problem
		extendedBatch
	}{p, extendedBatch{answers}})
}

type extendedBatch struct {
	Leases []extendedLease `json:"leases"`
}

// outcomeToFinish is a wire.Outcome whose id may be a string.
type outcomeToFinish struct {
	ID wire.ID `json:"id"`
	wire.Outcome
}

type finishRequest struct {
	Outcomes rawList `json:"outcomes"` // each is an outcomeToFinish
}

// finishedJob says what became of one outcome.
type finishedJob struct {
	ID      int64    `json:"id"`
	Problem *Problem `json:"problem,omitempty"` // why the outcome was not written
}

type finishedBatch struct {
	Outcomes []finishedJob `json:"outcomes"`
}

// finish writes outcomes. If some were refused, the answer is a problem that lists all outcomes.
func (s *Server) finish(w http.ResponseWriter, r *http.Request) error {
	var body finishRequest
	switch err := readBody(r, &body); {
	case err != nil:
		return err
	case body.Outcomes == nil:
		return missing("outcomes")
	}
	outcomes := make([]dibs.Outcome, len(body.Outcomes))
	added := adder{server: s, r: r}
	answers := make([]finishedJob, len(outcomes))
	at := make(map[int64]*finishedJob, len(outcomes))
	for i, raw := range body.Outcomes {
		if err := r.Context().Err(); err != nil {
			return err // the client is gone
		}
		var o outcomeToFinish
		if err := readObject(fmt.Sprintf("outcomes[%d]", i), raw, &o); err != nil {
			return err
		}
		add, err := added.read(i, o.Add)
		if err != nil {
			return err
		}
		o.Outcome.ID, o.Add = int64(o.ID), nil
		if outcomes[i], err = o.Outcome.Outcome(); err != nil {
			return err // cannot happen: it adds nothing here
		}
		outcomes[i].Add = add
		answers[i].ID = int64(o.ID)
		at[int64(o.ID)] = &answers[i]
	}
	if err := added.mayMake(); err != nil {
		return err
	}
	refused := &dibs.FinishError{}
	err := s.db.Finish(r.Context(), outcomes)
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	held := make(map[int64]bool, len(refused.Unwritten))
	for _, id := range refused.Unwritten {
		p := unavailable.problem("another transaction held the job: finish it again")
		at[id].Problem = &p
		held[id] = true
	}
	for _, id := range refused.Lost {
		p := leaseLost.problem("its lease had ended, or it was taken or finished; nothing was written for it")
		at[id].Problem = &p
	}
	for _, o := range outcomes {
		if !held[o.ID] {
			s.guests.ended(o.ID, o.Token)
		}
	}
	if err == nil {
		return reply(w, http.StatusOK, finishedBatch{answers})
	}
	p := leaseLost.problem("")
	if len(refused.Lost) == 0 {
		p = unavailable.problem("")
		w.Header().Set("Retry-After", retryAfter)
	}
	p.Detail = fmt.Sprintf("%d of %d outcomes were not written", len(refused.Lost)+len(refused.Unwritten), len(outcomes))
	p.Instance = instanceOf(r)
	return replyProblem(w, p.Status, struct {
		Problem
		finishedBatch
	}{p, finishedBatch{answers}})
}
