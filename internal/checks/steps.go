package checks

import (
	"fmt"

	"github.com/dibs-queue/dibs"
)

// Step checks a step that is to be written.
func Step(l dibs.Lease, name string, value []byte) error {
	if err := first(held(l, map[int64]bool{}), Name("step", name)); err != nil {
		return err
	}
	switch n := len(value); {
	case n == 0:
		return invalid("step.value", "is empty; it must be JSON (null for none)")
	case n > dibs.MaxResult:
		return invalid("step.value", "is %d bytes, the limit is %d", n, dibs.MaxResult)
	}
	return validJSON("step.value", value)
}

// Steps checks whose steps are to be read: without a token, those of any job.
func Steps(l dibs.Lease) error {
	if l.Token.IsZero() {
		return IDs([]int64{l.ID})
	}
	return held(l, map[int64]bool{})
}

// MoreSteps refuses a step of n bytes beside those that a job has.
func MoreSteps(job int64, name string, n, steps int, bytes int64) error {
	switch {
	case steps >= dibs.MaxSteps:
		return invalid("step", "%q of job %d is one too many: a job has at most %d steps", clip(name), job, dibs.MaxSteps)
	case bytes+int64(n) > dibs.MaxStepsTotal:
		return invalid("step.value", "of %q is %d bytes, the steps of job %d have %d, and the limit is %d in all", clip(name), n, job, bytes, dibs.MaxStepsTotal)
	}
	return nil
}

// StepDiffers is the error for a step that is done already, with another value.
func StepDiffers(job int64, name string) error {
	return invalid("step", "%q of job %d is done already, with another value; each step needs a name of its own", clip(name), job)
}

// StepLost is the error for the steps of a job whose lease is lost.
func StepLost(job int64) error {
	return Failed("steps", fmt.Errorf("%w on job %d: its lease had ended or it was finished; nothing was written for it", dibs.ErrLeaseLost, job))
}
