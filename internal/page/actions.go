package page

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// action does what a form asks for. It returns the page to go to (empty: back to the form's page), and a sentence about
// what was done.
type action = func(*request) (to, done string, err error)

// actions are all changes by their paths.
func (p *Page) actions() map[string]action {
	list := map[string]action{
		"/jobs/{id}/cancel":         p.cancelJob,
		"/jobs/{id}/requeue":        p.requeueJob,
		"/jobs/{id}/edit":           p.editJob,
		"/queues/{queue}/pause":     p.pauseQueue(true),
		"/queues/{queue}/resume":    p.pauseQueue(false),
		"/queues/{queue}/settings":  p.changeSettings,
		"/queues/{queue}/groups":    p.changeGroup,
		"/queues/{queue}/delete":    p.deleteQueue,
		"/schedules/{name}/pause":   p.pauseSchedule(true),
		"/schedules/{name}/resume":  p.pauseSchedule(false),
		"/schedules/{name}/run-now": p.runSchedule,
		"/flows/{flow}/cancel":      p.cancelFlow,
		"/failures/requeue":         p.changeFailures(requeueEnded),
		"/failures/prune":           p.changeFailures(deleteEnded),
	}
	for _, word := range listVerbs {
		list["/queues/{queue}/jobs/"+word] = p.changeListed(word)
	}
	return list
}

// audit notes who made a change, and how many jobs or settings it changed. If n is 0, it notes nothing.
func (p *Page) audit(r *request, did string, n int, what string) {
	if n > 0 {
		r.changed = true
		p.Note(r.Request, admin.Change{Who: r.who.Name, Did: did, What: what, N: n})
	}
}

func jobID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, &refusal{404, "A job's id is a whole number, not " + oneLine(words.Clip(text, 40)) + "."}
	}
	return id, nil
}

// changeJob runs a change of one job that the viewer may change.
func (p *Page) changeJob(r *request, f func(j *dibs.RawJob) (done string, err error)) (to, done string, err error) {
	j, err := p.jobOf(r, r.PathValue("id"))
	if err != nil {
		return "", "", err
	}
	if err := r.mayChange(j.Queue); err != nil {
		return "", "", err
	}
	done, err = f(j)
	return "", done, err
}

func (p *Page) cancelJob(r *request) (to, done string, err error) {
	return p.changeJob(r, func(j *dibs.RawJob) (string, error) {
		ended, asked, err := p.DB.Cancel(r.Context(), []int64{j.ID})
		if err != nil {
			return "", err
		}
		p.audit(r, "cancel", len(ended)+len(asked), fmt.Sprint("job ", j.ID))
		switch {
		case len(ended) > 0:
			return fmt.Sprintf("Job %d is cancelled.", j.ID), nil
		case len(asked) > 0:
			return fmt.Sprintf("The worker of job %d is asked to stop.", j.ID), nil
		}
		return "", &refusal{409, fmt.Sprintf("Job %d has ended already.", j.ID)}
	})
}

func (p *Page) requeueJob(r *request) (to, done string, err error) {
	return p.changeJob(r, func(j *dibs.RawJob) (string, error) {
		others := p.caused(r, j.ID)
		ids, err := p.DB.Requeue(r.Context(), []int64{j.ID}, time.Time{})
		if err != nil {
			return "", err
		}
		if len(ids) == 0 {
			return "", &refusal{409, fmt.Sprintf("Job %d has not ended, so it cannot be requeued.", j.ID)}
		}
		what, done := fmt.Sprint("job ", j.ID), fmt.Sprintf("Job %d waits again", j.ID)
		if others > 0 {
			what += ", and those that were cancelled because of it"
			done += "; " + verb(int64(others), "job that was cancelled because of it waits, too", "jobs that were cancelled because of it wait, too")
		}
		p.audit(r, "requeue", len(ids)+others, what)
		return done + ".", nil
	})
}

func (p *Page) editJob(r *request) (to, done string, err error) {
	return p.changeJob(r, func(j *dibs.RawJob) (string, error) {
		var e admin.Edit
		var what []string
		if text := strings.TrimSpace(r.PostFormValue("priority")); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return "", &dibs.InvalidError{Field: "priority", Reason: "must be a whole number"}
			}
			e.Priority = &n
			what = append(what, fmt.Sprintf("priority %d to %d", j.Priority, n))
		}
		at, err := moment("start", r.PostFormValue("run_at"), 1)
		if err != nil {
			return "", err
		}
		if !at.IsZero() {
			e.RunAt = &at
			what = append(what, "start "+stamp(j.RunAt)+" to "+stamp(at.Truncate(time.Second)))
		}
		if e == (admin.Edit{}) {
			return "", &refusal{422, "Give a priority, a start, or both."}
		}
		ids, err := p.DB.Edit(r.Context(), []int64{j.ID}, e)
		if err != nil {
			return "", err
		}
		p.audit(r, "edit", len(ids), fmt.Sprintf("job %d: %s", j.ID, strings.Join(what, ", ")))
		if len(ids) == 0 {
			return "", &refusal{409, fmt.Sprintf("Job %d does not wait any more, so it cannot be changed.", j.ID)}
		}
		return fmt.Sprintf("Job %d is changed.", j.ID), nil
	})
}

// moment reads a time in UTC, "now", or a duration such as 90s or 2h. If way is 1 the duration is counted from now on,
// if it is -1 back from now.
func moment(field, text string, way time.Duration) (at time.Time, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return at, nil
	}
	if text == "now" {
		return time.Now(), nil
	}
	if d, err := wire.ParseDuration(text); err == nil {
		return time.Now().Add(way * d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return at, nil
		}
	}
	span := map[time.Duration]string{1: "from now", -1: "before now"}[way]
	return at, &dibs.InvalidError{Field: field, Reason: "must be now, a time " + span + " such as 90s or 2h, or a time such as 2030-01-31 09:00 (UTC)"}
}

func (p *Page) pauseQueue(paused bool) action {
	return func(r *request) (to, done string, err error) {
		name := r.PathValue("queue")
		if err := r.mayChange(name); err != nil {
			return "", "", err
		}
		if _, err := p.queueNow(r, name); err != nil {
			return "", "", err
		}
		if _, err := p.DB.ChangeQueue(r.Context(), name, dibs.QueueChange{Paused: &paused}.Apply); err != nil {
			return "", "", err
		}
		word, does := "resume", "goes on"
		if paused {
			word, does = "pause", "is paused: no more jobs start"
		}
		p.audit(r, word, 1, "queue "+name)
		return "", "The queue " + oneLine(name) + " " + does + ".", nil
	}
}

// queueNow reads the settings of a queue, which must exist, from the database.
func (p *Page) queueNow(r *request, name string) (dibs.Queue, error) {
	queues, err := p.DB.Queues(r.Context(), name)
	if err != nil {
		return dibs.Queue{}, err
	}
	if len(queues) > 0 {
		return queues[0], nil
	}
	return dibs.Queue{}, &refusal{404, "There is no queue of the name " + oneLine(name) + "."}
}

// scheduleOf finds a schedule that the viewer may change.
func (p *Page) scheduleOf(r *request) (dibs.Schedule, error) {
	found, err := p.DB.Schedules(r.Context(), r.PathValue("name"))
	if err != nil && !errors.Is(err, dibs.ErrInvalid) { // a name that is refused is one that no schedule has
		return dibs.Schedule{}, err
	}
	if len(found) == 0 || !r.who.Reads(found[0].Queue) {
		return dibs.Schedule{}, dibs.ErrUnknownSchedule
	}
	return found[0], r.mayChange(found[0].Queue)
}

func (p *Page) pauseSchedule(paused bool) action {
	return func(r *request) (to, done string, err error) {
		s, err := p.scheduleOf(r)
		if err != nil {
			return "", "", err
		}
		_, err = p.DB.ChangeSchedule(r.Context(), s.Name, func(now *dibs.Schedule) error {
			now.Paused = paused
			return r.mayChange(now.Queue) // another schedule may have taken its name
		})
		if err != nil {
			return "", "", err
		}
		word, does := "resume", "goes on"
		if paused {
			word, does = "pause", "is paused"
		}
		p.audit(r, word, 1, "schedule "+s.Name)
		return "", "The schedule " + oneLine(s.Name) + " " + does + ".", nil
	}
}

func (p *Page) runSchedule(r *request) (to, done string, err error) {
	s, err := p.scheduleOf(r)
	if err != nil {
		return "", "", err
	}
	e, err := p.DB.RunSchedule(r.Context(), s.Name, s.Queue)
	if err != nil {
		return "", "", err
	}
	p.audit(r, "run now", 1, "schedule "+s.Name)
	return fmt.Sprintf("/jobs/%d", e.ID), "The schedule " + oneLine(s.Name) + " has enqueued this job.", nil
}

// find leads to what the viewer looks for: a job by its id, or a queue by its name or a part of it.
func (p *Page) find(r *request) (to, done string, err error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
		return fmt.Sprintf("/jobs/%d", id), "", nil
	}
	now, err := p.looks.get(r.Context())
	if err != nil {
		return "", "", err
	}
	var found []string
	for _, s := range now.stats {
		if !r.who.Reads(s.Queue) {
			continue
		}
		if s.Queue == text {
			found = []string{text}
			break
		}
		if isPart(text, s.Queue) {
			found = append(found, s.Queue)
		}
	}
	switch {
	case text == "":
		return "/", "", nil
	case len(found) == 0:
		return "", "", &refusal{404, fmt.Sprintf("No queue has “%s” in its name, and it is no job's id.", oneLine(words.Clip(text, 100)))}
	case len(found) > 1:
		return "/?q=" + url.QueryEscape(text), "", nil
	}
	return "/queues/" + segment(found[0]), "", nil
}
