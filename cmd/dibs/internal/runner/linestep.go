package runner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
)

// maxUnanswered is how many steps and questions of a job may wait for their answers.
const maxUnanswered = 16

// lastStepWait is how long a step may take to be written that came when its job was to stop.
const lastStepWait = 5 * time.Second

// stepsOf reads what earlier attempts of a job have done. Stores of adopted tables keep no steps.
func (w *Lines) stepsOf(ctx context.Context, job *dibs.RawJob) (stepValues, error) {
	store, ok := w.Store.(dibs.StepStore)
	if !ok || job.Attempt == 1 {
		return nil, nil
	}
	all, err := store.Steps(ctx, job.Lease())
	if err != nil {
		return nil, err
	}
	steps := stepValues{}
	for _, s := range all {
		steps[s.Name] = s.Value
	}
	return steps, nil
}

// putSteps writes the steps that came before the answer of a job, or before the end of its process.
func (p *lineProcess) putSteps(ctx context.Context, j *lineJob) {
	for {
		select {
		case a := <-j.asks:
			if a.Step != "" {
				p.putStep(ctx, j, a)
			}
		default:
			return
		}
	}
}

// putStep writes a step, and tells the process that it is written, or why it is not.
func (p *lineProcess) putStep(ctx context.Context, j *lineJob, a lineAnswer) {
	if a.Value == nil {
		a.Value = json.RawMessage("null")
	}
	if ctx.Err() != nil { // it was done all the same, and the lease may still hold
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(context.WithoutCancel(ctx), lastStepWait)
		defer stop()
	}
	_, err := dibs.Step(ctx, j.job, a.Step, func(context.Context) (json.RawMessage, error) { return a.Value, nil })
	answer := struct {
		ID    lineID     `json:"id"`
		Token dibs.Token `json:"token"`
		Step  string     `json:"step"`
		Error string     `json:"error,omitempty"`
	}{ID: lineID(j.job.ID), Token: j.job.Token, Step: a.Step}
	if err != nil {
		answer.Error = err.Error()
	}
	p.reply(answer)
}

// reply writes a line about a job to the process.
func (p *lineProcess) reply(v any) {
	line, err := encodeLine(v)
	if err != nil {
		return // cannot happen
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.send(line)
	}
}
