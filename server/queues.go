package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/wire"
)

type queuesAnswer struct {
	Queues []wire.Queue `json:"queues"`
	Next   string       `json:"next,omitempty"`
}

// listQueues shows the settings of queues, in pages.
func (s *Server) listQueues(w http.ResponseWriter, r *http.Request) error {
	queues, err := s.db.Queues(r.Context())
	if err != nil {
		return err
	}
	name := func(q dibs.Queue) string { return q.Name }
	part, next, err := queuesOnPage(r, visible(s, r, queues, name), name)
	if err != nil {
		return err
	}
	a := queuesAnswer{[]wire.Queue{}, next}
	for _, q := range part {
		a.Queues = append(a.Queues, wire.QueueOf(q))
	}
	return reply(w, http.StatusOK, a)
}

// maxQueuesOnPage is how many queues one answer lists.
const maxQueuesOnPage = 1000

// queuesOnPage returns the part of a list, sorted by queue, that a request asks for, and the name after which the next
// page begins.
func queuesOnPage[T any](r *http.Request, all []T, name func(T) string) (part []T, next string, err error) {
	q, err := query(r, "queue", "limit", "after")
	if err != nil {
		return nil, "", err
	}
	limit := maxQueuesOnPage
	if _, given := q["limit"]; given {
		if limit, err = number(q, "limit"); err == nil && (limit < 1 || limit > maxQueuesOnPage) {
			err = &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, got %d", maxQueuesOnPage, limit)}
		}
		if err != nil {
			return nil, "", err
		}
	}
	only, named := q["queue"]
	for _, one := range all {
		switch is := name(one); {
		case named && is != only, is <= q["after"]:
		case len(part) == limit:
			return part, name(part[limit-1]), nil
		default:
			part = append(part, one)
		}
	}
	return part, "", nil
}

// queueOf finds the queue whose name is in the path.
func (s *Server) queueOf(r *http.Request) (dibs.Queue, error) {
	name := r.PathValue("queue")
	if err := s.mayUse(r, name); err != nil {
		return dibs.Queue{}, err
	}
	queues, err := s.db.Queues(r.Context(), name)
	if err != nil {
		return dibs.Queue{}, err
	}
	if len(queues) > 0 {
		return queues[0], nil
	}
	return dibs.Queue{}, fmt.Errorf("%w %.255q", dibs.ErrUnknownQueue, name)
}

// getQueue shows the settings of one queue.
func (s *Server) getQueue(w http.ResponseWriter, r *http.Request) error {
	q, err := s.queueOf(r)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, wire.QueueOf(q))
}

// changeQueue changes the settings that the body names, and shows all settings. It makes a
// queue that does not exist only if the request says so: otherwise a misspelt name would make a
// queue that no worker serves.
func (s *Server) changeQueue(w http.ResponseWriter, r *http.Request) error {
	create, err := yesNo(r, "create")
	if err != nil {
		return err
	}
	c, err := readChange[wire.Settings](r)
	if err != nil {
		return err
	}
	old, err := s.queueOf(r)
	switch {
	case create && errors.Is(err, dibs.ErrUnknownQueue):
		old = dibs.DefaultSettings(r.PathValue("queue"))
		if err := s.mayMake(r.Context(), old.Name); err != nil {
			return err
		}
	case errors.Is(err, dibs.ErrUnknownQueue):
		return fmt.Errorf("%w; with ?create=true this call makes it", err)
	case err != nil:
		return err
	}
	q, err := s.db.ChangeQueue(r.Context(), old.Name, func(q *dibs.Queue) error {
		now := wire.QueueOf(*q)
		err := c.make(&now.Settings)
		now.Rate.OrNone(c.given.Rate)
		now.GroupRate.OrNone(c.given.GroupRate)
		*q = now.Queue()
		return err
	})
	if err != nil {
		return err
	}
	s.noted(r, "change", 1, withFields(queueNoted(q.Name), c.body))
	return reply(w, http.StatusOK, wire.QueueOf(q))
}

// deleteQueue deletes a queue that nothing needs.
func (s *Server) deleteQueue(w http.ResponseWriter, r *http.Request) error {
	ended, err := yesNo(r, "ended")
	if err != nil {
		return err
	}
	name := r.PathValue("queue")
	if err := s.mayUse(r, name); err != nil {
		return err
	}
	if err := s.db.DeleteQueue(r.Context(), name, ended); err != nil {
		return err
	}
	what := queueNoted(name)
	if ended {
		what += " and its ended jobs"
	}
	s.noted(r, "delete", 1, what)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type groupsAnswer struct {
	Groups []wire.Group `json:"groups"`
}

// listGroups shows the groups of a queue that have settings of their own, or are held up.
func (s *Server) listGroups(w http.ResponseWriter, r *http.Request) error {
	var groups []dibs.Group
	err := s.loads.show(r, 0, func() error {
		q, err := s.queueOf(r)
		if err != nil {
			return err
		}
		groups, err = s.db.Groups(r.Context(), q.Name)
		return err
	})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, groupsAnswer{wire.GroupsOf(groups)})
}

// groupSettings are what can be changed of a group.
type groupSettings struct {
	Limit int       `json:"limit"`
	Rate  wire.Rate `json:"rate"`
}

// changeGroup changes the settings of one group that the body names, and shows all settings.
func (s *Server) changeGroup(w http.ResponseWriter, r *http.Request) error {
	c, err := readChange[groupSettings](r)
	if err != nil {
		return err
	}
	q, err := s.queueOf(r)
	if err != nil {
		return err
	}
	queue, name := q.Name, r.PathValue("group")
	err = s.db.ChangeGroup(r.Context(), queue, name, func(g *dibs.Group) error {
		now := groupSettings{g.Limit, wire.RateOf(g.Rate)}
		err := c.make(&now)
		now.Rate.OrNone(c.given.Rate)
		g.Limit, g.Rate = now.Limit, now.Rate.Rate()
		return err
	})
	if err != nil {
		return err
	}
	s.noted(r, "change", 1, withFields("group "+name+" of "+queueNoted(queue), c.body))
	now, err := s.group(r, queue, name)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, wire.GroupsOf([]dibs.Group{now})[0])
}

func (s *Server) group(r *http.Request, queue, name string) (dibs.Group, error) {
	groups, err := s.db.Groups(r.Context(), queue)
	if err != nil {
		return dibs.Group{}, err
	}
	for _, g := range groups {
		if g.Name == name {
			return g, nil
		}
	}
	return dibs.Group{Name: name}, nil
}

type statsAnswer struct {
	Stats []wire.Stats `json:"stats"`
	Next  string       `json:"next,omitempty"`
}

// stats shows the statistics of the queues, in pages. Calls at the same time share one count.
func (s *Server) stats(w http.ResponseWriter, r *http.Request) error {
	all, err := s.counts.ask(func() ([]admin.QueueStats, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.Limits.AnswerTime)
		defer cancel()
		return s.db.Stats(ctx)
	})
	if err != nil {
		return err
	}
	name := func(q admin.QueueStats) string { return q.Queue }
	part, next, err := queuesOnPage(r, visible(s, r, all, name), name)
	if err != nil {
		return err
	}
	a := statsAnswer{[]wire.Stats{}, next}
	for _, q := range part {
		a.Stats = append(a.Stats, wire.StatsOf(q))
	}
	return reply(w, http.StatusOK, a)
}

type workersAnswer struct {
	Workers []dibs.WorkerInfo `json:"workers"`
}

// workers shows the register of workers. A caller who may not use all queues sees only
// workers that serve one of the caller's, without their other queues.
func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	all, err := s.db.Workers(r.Context())
	if err != nil {
		return err
	}
	a := workersAnswer{[]dibs.WorkerInfo{}}
	for _, one := range all {
		one.Queues = visible(s, r, one.Queues, func(queue string) string { return queue })
		if !s.limited(r) || len(one.Queues) > 0 {
			a.Workers = append(a.Workers, one)
		}
	}
	return reply(w, http.StatusOK, a)
}
