package ticks

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Replace is a schedule as it is to be stored in place of old, or of none: checked, and with the fields filled in that are
// the store's. all lists the schedules that there are.
func Replace(s dibs.Schedule, old *dibs.Schedule, now time.Time, all func() ([]dibs.Schedule, error), limit func(queue string) (int, error)) (dibs.Schedule, error) {
	if s.Owner = ""; old != nil {
		s.Owner = old.Owner
	} else if list, err := all(); err != nil {
		return s, err
	} else if err := room(list); err != nil {
		return s, err
	}
	s, err := check(s, old, limit)
	if err == nil {
		err = place(&s, old, now)
	}
	return s, err
}

// Editable checks the arguments of a call that has f change a schedule.
func Editable(name string, f func(*dibs.Schedule) error) error {
	err := checks.Name("name", name)
	if err == nil && f == nil {
		err = &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that changes the schedule"}
	}
	return err
}

// room refuses a new schedule where there are as many as there may be.
func room(all []dibs.Schedule) error {
	if len(all) < dibs.MaxSchedules {
		return nil
	}
	return invalid("name", "would be one schedule too many: there are %d, the most that a database can have; delete some", len(all))
}

// Of reports whether a schedule is of one of the queues; nil: of any.
func Of(s *dibs.Schedule, queues []string) bool {
	return queues == nil || slices.Contains(queues, s.Queue)
}

// Replaceable refuses to replace a schedule, if there is one, that is of none of the queues.
func Replaceable(old *dibs.Schedule, queues []string) error {
	if old == nil || Of(old, queues) {
		return nil
	}
	return fmt.Errorf("%w in these queues: the name %.255q is taken by one of another queue", dibs.ErrUnknownSchedule, old.Name)
}

// Unknown is the error of calls that name a schedule that does not exist.
func Unknown(name string) error {
	return fmt.Errorf("%w %.255q", dibs.ErrUnknownSchedule, name)
}
