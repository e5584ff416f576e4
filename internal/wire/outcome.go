package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// Outcome is a dibs.Outcome as JSON gives it.
type Outcome struct {
	ID     int64           `json:"id"`
	Token  dibs.Token      `json:"token"`
	Ending dibs.Ending     `json:"ending"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Delay  *Seconds        `json:"delay"`
	Add    Added           `json:"add"`
}

// Outcome is the library's form. Errors of the jobs that it adds are those of Added.Jobs.
func (o *Outcome) Outcome() (dibs.Outcome, error) {
	add, err := o.Add.Jobs()
	return dibs.Outcome{ID: o.ID, Token: o.Token, Ending: o.Ending, Result: o.Result, Error: o.Error, Delay: (*time.Duration)(o.Delay), Add: add}, err
}

// Added are the jobs that an outcome adds: each is a NewJob, and is read by itself, so that an error can say which.
type Added []json.RawMessage

// Jobs reads the jobs. Without a queue a job goes to the queue default, as one that is enqueued over HTTP. Errors are
// FieldErrors, such as of the field "add[3].delay".
func (a Added) Jobs() ([]dibs.NewJob, error) {
	var jobs []dibs.NewJob
	for i, raw := range a {
		job, err := ReadJob(raw, dibs.NewJob{Queue: dibs.DefaultQueue})
		if err != nil {
			return nil, addedError(i, err)
		}
		if job.Kind == "" {
			job.Kind = job.Queue
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// addedError puts the place of an added job before the field of an error.
func addedError(i int, err error) error {
	place := fmt.Sprintf("add[%d]", i)
	var field *FieldError
	var rule *dibs.InvalidError
	switch {
	case errors.As(err, &field):
		return &FieldError{place + "." + field.Field, field.Err}
	case errors.As(err, &rule):
		return &FieldError{place, errors.New(rule.Reason)}
	}
	return &FieldError{place, err}
}
