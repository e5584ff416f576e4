package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

type schedulesAnswer struct {
	Schedules []wire.Schedule `json:"schedules"`
}

// listSchedules shows all schedules, without their payloads.
func (s *Server) listSchedules(w http.ResponseWriter, r *http.Request) error {
	all, err := s.db.Schedules(r.Context())
	if err != nil {
		return err
	}
	a := schedulesAnswer{[]wire.Schedule{}}
	for _, one := range visible(s, r, all, func(one dibs.Schedule) string { return one.Queue }) {
		a.Schedules = append(a.Schedules, wire.ScheduleOf(one))
	}
	return reply(w, http.StatusOK, a)
}

// scheduleOf finds the schedule whose name is in the path.
func (s *Server) scheduleOf(r *http.Request) (dibs.Schedule, error) {
	name := r.PathValue("schedule")
	found, err := s.db.Schedules(r.Context(), name)
	if err != nil && !errors.Is(err, dibs.ErrInvalid) { // a name that is refused is one that no schedule has
		return dibs.Schedule{}, err
	}
	if len(found) == 0 || s.mayUse(r, found[0].Queue) != nil {
		return dibs.Schedule{}, unknownSchedule(name)
	}
	return found[0], nil
}

func unknownSchedule(name string) error {
	return fmt.Errorf("%w %.255q", dibs.ErrUnknownSchedule, name)
}

// getSchedule shows one schedule.
func (s *Server) getSchedule(w http.ResponseWriter, r *http.Request) error {
	one, err := s.scheduleOf(r)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, wire.ScheduleOf(one))
}

// scheduleBody is a schedule as a request sends it, with its payload as it was written.
type scheduleBody struct {
	wire.Schedule
	Payload json.RawMessage `json:"payload"`
}

// readSchedule changes the fields of a schedule that the body has. The others stay.
func readSchedule(body []byte, over dibs.Schedule) (dibs.Schedule, error) {
	name := over.Name
	b := scheduleBody{Schedule: wire.ScheduleOf(over)}
	if err := readObject("body", body, &b); err != nil {
		return over, err
	}
	if b.Name != name {
		return over, &dibs.InvalidError{Field: "name", Reason: fmt.Sprintf("must be that of the path, %.255q, or be left out; got %.255q", name, b.Name)}
	}
	one := b.Schedule.Schedule
	one.Jitter = time.Duration(b.Schedule.Jitter)
	if one.Payload = over.Payload; b.Payload != nil {
		one.Payload = b.Payload
	}
	return one, nil
}

// setSchedule makes a schedule, or replaces the one of that name.
func (s *Server) setSchedule(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(r, "application/json")
	if err != nil {
		return err
	}
	one, err := readSchedule(body, dibs.Schedule{Name: r.PathValue("schedule")})
	if err != nil {
		return err
	}
	if one.Queue == "" {
		one.Queue = dibs.DefaultQueue
	}
	if one.Kind == "" {
		one.Kind = one.Queue
	}
	if err := s.mayUse(r, one.Queue); err != nil {
		return err
	}
	if err := s.losesNothing(r, one); err != nil {
		return err
	}
	one, err = s.db.SetSchedule(r.Context(), one, ownQueues(r)...)
	if errors.Is(err, dibs.ErrUnknownSchedule) {
		return &problemError{kind: forbidden, detail: "this name is taken by a schedule of a queue that the token may not use"}
	}
	if err != nil {
		return ofBody(err)
	}
	s.noted(r, "set", 1, withFields("schedule "+one.Name, json.RawMessage(body)))
	return reply(w, http.StatusOK, wire.ScheduleOf(one))
}

// losesNothing refuses a schedule without payload or metadata if the schedule that it replaces has some. Lists of
// schedules leave these out, so an element of a list that is sent back would lose them.
func (s *Server) losesNothing(r *http.Request, one dibs.Schedule) error {
	if one.Payload != nil && len(one.Metadata) > 0 {
		return nil
	}
	old, err := s.scheduleOf(r)
	if errors.Is(err, dibs.ErrUnknownSchedule) {
		return nil // a schedule that the token may not replace gets an error later
	} else if err != nil {
		return err
	}
	raw, _ := old.Payload.(json.RawMessage)
	const reason = "must be given, as the schedule has one, which lists of schedules leave out; %s takes it away, and PATCH changes only what it names"
	switch {
	case one.Payload == nil && len(raw) > 0 && string(raw) != "null":
		return &dibs.InvalidError{Field: "payload", Reason: fmt.Sprintf(reason, "null")}
	case len(one.Metadata) == 0 && len(old.Metadata) > 0 && string(old.Metadata) != "{}":
		return &dibs.InvalidError{Field: "metadata", Reason: fmt.Sprintf(reason, "{}")}
	}
	return nil
}

// changeSchedule changes what the body names, such as whether the schedule is paused.
func (s *Server) changeSchedule(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(r, "application/json")
	if err != nil {
		return err
	}
	if _, err := readSchedule(body, dibs.Schedule{Name: r.PathValue("schedule")}); err != nil {
		return err
	}
	if err := noNulls("", body); err != nil {
		return err
	}
	name := r.PathValue("schedule")
	one, err := s.db.ChangeSchedule(r.Context(), name, func(one *dibs.Schedule) error {
		if s.mayUse(r, one.Queue) != nil {
			return unknownSchedule(name)
		}
		if *one, err = readSchedule(body, *one); err != nil {
			return err
		}
		return s.mayUse(r, cmp.Or(one.Queue, dibs.DefaultQueue))
	})
	if errors.Is(err, dibs.ErrUnknownSchedule) {
		return unknownSchedule(name) // the same answer for a schedule of another token's queue and for none
	}
	if err != nil {
		return ofBody(err)
	}
	s.noted(r, "change", 1, withFields("schedule "+one.Name, json.RawMessage(body)))
	return reply(w, http.StatusOK, wire.ScheduleOf(one))
}

// ofBody removes "schedule." from the field that an error names, since the body has no such part.
func ofBody(err error) error {
	var rule *dibs.InvalidError
	if !errors.As(err, &rule) {
		return err
	}
	return &dibs.InvalidError{Field: strings.TrimPrefix(rule.Field, "schedule."), Reason: rule.Reason}
}

// deleteSchedule deletes a schedule. Its jobs stay.
func (s *Server) deleteSchedule(w http.ResponseWriter, r *http.Request) error {
	if err := s.db.DeleteSchedule(r.Context(), r.PathValue("schedule"), ownQueues(r)...); err != nil {
		return err
	}
	s.noted(r, "delete", 1, "schedule "+r.PathValue("schedule"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// runSchedule enqueues a schedule's job now.
func (s *Server) runSchedule(w http.ResponseWriter, r *http.Request) error {
	e, err := s.db.RunSchedule(r.Context(), r.PathValue("schedule"), ownQueues(r)...)
	if err != nil {
		return err
	}
	s.noted(r, "run now", 1, "schedule "+r.PathValue("schedule"))
	return reply(w, http.StatusCreated, e)
}

type ticksAnswer struct {
	Ticks []time.Time `json:"ticks"`
}

// nextTicks lists the next ticks of a schedule.
func (s *Server) nextTicks(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "n")
	if err != nil {
		return err
	}
	n := 5
	if _, given := q["n"]; given {
		if n, err = number(q, "n"); err != nil {
			return err
		}
	}
	one, err := s.scheduleOf(r)
	if err != nil {
		return err
	}
	next, err := s.db.NextTicks(r.Context(), one, n)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, ticksAnswer{list(next)})
}
