package page

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// field is a setting of a queue, with its value, as a form shows it.
type field struct {
	wire.Setting
	Value string
}

// fieldsOf lists the settings of a queue for a form.
func fieldsOf(q dibs.Queue) []field {
	list := make([]field, len(wire.QueueSettings))
	for i, s := range wire.QueueSettings {
		list[i] = field{s, s.Text(q)}
	}
	return list
}

// difference is a setting that a form would change.
type difference struct {
	Name, Label, Old, New string
}

type settingsView struct {
	Queue   string
	Group   string // empty: the settings are those of the queue
	Changes []difference
	Back    string
}

// changeSettings shows what a form would change. When the change is confirmed, it is made.
func (p *Page) changeSettings(r *request) (to, done string, err error) {
	name := r.PathValue("queue")
	if err := r.mayChange(name); err != nil {
		return "", "", err
	}
	q, err := p.queueNow(r, name)
	if err != nil {
		return "", "", err
	}
	v := settingsView{Queue: name, Back: "/queues/" + segment(name)}
	fill := func(q *dibs.Queue) (err error) {
		v.Changes, err = fillSettings(r, q)
		return err
	}
	sure := r.PostFormValue("sure") != ""
	if sure {
		_, err = p.DB.ChangeQueue(r.Context(), name, fill)
	} else {
		_, err = checks.Changed(q, fill)
	}
	switch {
	case err != nil:
		return "", "", err
	case len(v.Changes) == 0:
		return v.Back, "Nothing to change.", nil
	case !sure:
		p.write(r, http.StatusOK, "settings", v)
		return answered, "", nil
	}
	p.audit(r, "change", len(v.Changes), "queue "+name+": "+listed(v.Changes))
	return v.Back, fmt.Sprintf("Changed %s of the queue %s.", plural(len(v.Changes), "setting"), oneLine(name)), nil
}

type deleteView struct{ Queue string }

// deleteQueue asks whether to delete a queue. When that is confirmed, the queue is deleted.
func (p *Page) deleteQueue(r *request) (to, done string, err error) {
	name := r.PathValue("queue")
	if err := r.mayChange(name); err != nil {
		return "", "", err
	}
	if _, err := p.queueNow(r, name); err != nil {
		return "", "", err
	}
	if r.PostFormValue("sure") == "" {
		p.write(r, http.StatusOK, "delete", deleteView{name})
		return answered, "", nil
	}
	if err := p.DB.DeleteQueue(r.Context(), name, false); err != nil {
		return "", "", err
	}
	p.audit(r, "delete", 1, "queue "+name)
	return "/", "The queue " + oneLine(name) + " is deleted.", nil
}

// fillSettings sets the settings of a queue that a form has, and lists what differs.
func fillSettings(r *request, q *dibs.Queue) (changes []difference, err error) {
	old := *q
	for _, f := range fieldsOf(*q) {
		given, ok := r.PostForm[f.Name]
		if !ok || len(given) != 1 || r.PostForm.Has("was-"+f.Name) && given[0] == r.PostForm.Get("was-"+f.Name) {
			continue // the viewer has not touched this field: if its value is another one by now, somebody else has changed it
		}
		if text := strings.TrimSpace(given[0]); text != f.Value {
			if err := unchangedSince(r, f.Name, f.Label, f.Value); err != nil {
				return nil, err
			}
			if err := f.Set(q, text); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range fieldsOf(old) {
		if now := f.Text(*q); now != f.Value {
			changes = append(changes, difference{f.Name, f.Label, f.Value, now})
		}
	}
	return changes, nil
}

// unchangedSince refuses a confirmed change if the setting no longer has the value that the page
// showed, as the viewer has not seen its new value.
func unchangedSince(r *request, name, label, now string) error {
	was := r.PostFormValue("was-" + name)
	if r.PostFormValue("sure") == "" || !r.PostForm.Has("was-"+name) || now == was {
		return nil
	}
	return &refusal{http.StatusConflict, fmt.Sprintf("Somebody else has changed “%s” meanwhile: it was %s and is %s now. Nothing was changed here: go back and look at it again.",
		label, oneLine(words.Clip(was, 40)), now)}
}

// listed writes the differences as one text, for the page of changes.
func listed(changes []difference) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.Name + " " + c.Old + " to " + c.New
	}
	return strings.Join(texts, ", ")
}
