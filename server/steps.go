package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// stepToWrite is a step that a worker has done.
type stepToWrite struct {
	ID    wire.ID         `json:"id"`
	Token dibs.Token      `json:"token"`
	Step  string          `json:"step"`
	Value json.RawMessage `json:"value"`
}

// heldJob names a job that a worker holds.
type heldJob struct {
	ID    wire.ID    `json:"id"`
	Token dibs.Token `json:"token"`
}

// writtenStep says which step was written.
type writtenStep struct {
	ID   int64  `json:"id"`
	Step string `json:"step"`
}

// stepsAnswer lists the steps of a job, the first first.
type stepsAnswer struct {
	Steps []dibs.StepDone `json:"steps"`
}

// writeStep writes that a step of a job is done, for the holder of its lease.
func (s *Server) writeStep(w http.ResponseWriter, r *http.Request) error {
	var body stepToWrite
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.Value == nil {
		body.Value = json.RawMessage("null")
	}
	l := dibs.Lease{ID: int64(body.ID), Token: body.Token}
	err := s.db.PutStep(r.Context(), l, body.Step, body.Value)
	if errors.Is(err, dibs.ErrLeaseLost) {
		s.guests.ended(l.ID, l.Token)
	}
	var rule *dibs.InvalidError
	if errors.As(err, &rule) && rule.Field == "step.value" {
		return &dibs.InvalidError{Field: "value", Reason: rule.Reason} // as the body names it
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, writtenStep{l.ID, body.Step})
}

// heldSteps lists what earlier attempts of a job have done, for the holder of its lease.
func (s *Server) heldSteps(w http.ResponseWriter, r *http.Request) error {
	var body heldJob
	if err := readBody(r, &body); err != nil {
		return err
	}
	l := dibs.Lease{ID: int64(body.ID), Token: body.Token}
	if l.Token.IsZero() { // without one the store would show the steps of any job
		return missing("token")
	}
	return s.listSteps(w, r, l)
}

// jobSteps shows the steps of a job to those who only look.
func (s *Server) jobSteps(w http.ResponseWriter, r *http.Request) error {
	job, err := s.jobOf(r)
	if err != nil {
		return err
	}
	return s.listSteps(w, r, dibs.Lease{ID: job.ID})
}

func (s *Server) listSteps(w http.ResponseWriter, r *http.Request, l dibs.Lease) error {
	var steps []dibs.StepDone
	err := s.loads.show(r, 1, func() (err error) {
		if steps, err = s.db.Steps(r.Context(), l); err != nil {
			return err
		}
		size := 0
		for i := range steps {
			size += 2 * (len(steps[i].Name) + len(steps[i].Value)) // the step itself, and its JSON
			if !json.Valid(steps[i].Value) {                       // only SQL by hand can leave that
				return fmt.Errorf("step %q of job %d is not valid JSON in the database", steps[i].Name, l.ID)
			}
		}
		return roomOf(r).set(size)
	})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, stepsAnswer{list(steps)})
}
