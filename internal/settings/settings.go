// Package settings changes the settings of queues, groups and schedules that others may change at the same time: it reads
// them, has the caller's function change them while nothing is locked, and begins again if they are not the same by then.
package settings

import (
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// ErrStale says that the database has other settings than those that a change was made from.
var ErrStale = errors.New("settings have changed")

// rounds is how often a change is made because somebody else, or a tick, has changed the settings meanwhile.
const rounds = 200

// Repeat calls change until it does not fail with ErrStale; what names the settings in the error of a change that others
// have always overtaken.
func Repeat(op, what string, change func() error) error {
	for range rounds {
		if err := change(); !errors.Is(err, ErrStale) {
			return err
		}
	}
	return checks.Failed(op, Overtaken(what, rounds))
}

// Overtaken is the error of a call that others, who change settings, have overtaken n times.
func Overtaken(what string, n int) error {
	return fmt.Errorf("%s changed %d times meanwhile: %w", what, n, dibs.ErrUnavailable)
}

// OrStale is err, or without one ErrStale unless the settings were those that the change was made from.
func OrStale(same bool, err error) error {
	if err == nil && !same {
		return ErrStale
	}
	return err
}

// ChangeQueue has f change a queue's settings and returns the new ones. read reads the settings as they are, write
// stores others in their place, or fails with ErrStale.
func ChangeQueue(name string, f func(*dibs.Queue) error, read func() (dibs.Queue, error), write func(before, after dibs.Queue) error) (dibs.Queue, error) {
	if err := checks.Name("queue", name); err != nil {
		return dibs.Queue{}, err
	}
	if f == nil {
		return dibs.Queue{}, noFunction
	}
	var after dibs.Queue
	err := Repeat("change queue "+name, "its settings", func() error {
		before, err := read()
		if err == nil {
			after, err = checks.Changed(before, f)
		}
		if err == nil {
			err = write(before, after)
		}
		return err
	})
	if err != nil {
		return dibs.Queue{}, err
	}
	return after, nil
}

// ChangeGroup has f change the settings of a group. read reads the settings as they are, write stores others if the
// group still has those before, else it fails with ErrStale.
func ChangeGroup(queue, group string, f func(*dibs.Group) error, read func() (dibs.Group, error), write func(before, after dibs.Group) error) error {
	if err := CanChangeGroup(queue, group, f); err != nil {
		return err
	}
	return Repeat("change group "+group, "its settings", func() error {
		before, err := read()
		if err != nil {
			return err
		}
		after, err := checks.ChangedGroup(before, f)
		if err == nil {
			err = write(before, after)
		}
		return err
	})
}

// CanChangeGroup checks a call of ChangeGroup.
func CanChangeGroup(queue, group string, f func(*dibs.Group) error) error {
	if err := checks.Group(queue, group); err != nil {
		return err
	}
	if f == nil {
		return noFunction
	}
	return nil
}

var noFunction = &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that makes the change"}
