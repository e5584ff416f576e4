package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
)

// ID is the id of a job, as a number or a string: not all languages have numbers that hold every id.
type ID int64

// UnmarshalJSON reads either form.
func (i *ID) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("an id must be a whole number, or a string of one, got %.40s", raw)
	}
	*i = ID(n)
	return nil
}

// Dep is a dibs.Dep as JSON gives it: the ref of jobs of the same call, the id of a job, or an object, which can
// also say what it needs of their ends.
type Dep struct {
	Ref string    `json:"ref,omitempty"`
	ID  int64     `json:"id,omitempty"`
	On  dibs.Need `json:"on,omitempty"`
}

// UnmarshalJSON reads one of the three forms.
func (d *Dep) UnmarshalJSON(raw []byte) error {
	*d = Dep{}
	if HalfAt(raw) >= 0 { // the decoder would replace it, so several refs would become one
		return errors.New(`has half of a surrogate pair, such as \ud800 alone, which is no character`)
	}
	first := raw[0]
	switch {
	case first == '"':
		return json.Unmarshal(raw, &d.Ref)
	case first == '{':
		var o struct {
			Ref string    `json:"ref"`
			ID  *ID       `json:"id"`
			On  dibs.Need `json:"on"`
		}
		if err := ReadObject(raw, &o); err != nil {
			return err
		}
		d.Ref, d.On = o.Ref, o.On
		if o.ID != nil {
			d.ID = int64(*o.ID)
			return atLeast1(d.ID)
		}
		return nil
	case first == '-' || first >= '0' && first <= '9':
		if err := json.Unmarshal(raw, &d.ID); err != nil {
			return fmt.Errorf("an id must be a whole number, got %.40s", raw)
		}
		return atLeast1(d.ID)
	}
	return fmt.Errorf(`must be a ref in a string, an id as a number, or an object such as {"ref": "page", "on": "ended"}, got %.40s`, raw)
}

func atLeast1(id int64) error {
	if id < 1 {
		return fmt.Errorf("an id must be at least 1, got %d", id)
	}
	return nil
}

// Deps is the list after of a job.
type Deps []Dep

// Limit refuses too many before they are decoded.
func (Deps) Limit(field string, n int) error {
	if n > dibs.MaxAfter {
		return &FieldError{field, fmt.Errorf("has %d items, the limit is %d", n, dibs.MaxAfter)}
	}
	return nil
}

// deps is the library's form. An empty list is not nil.
func (list Deps) deps() []dibs.Dep {
	all := make([]dibs.Dep, len(list))
	for i, d := range list {
		all[i] = dibs.Dep{ID: d.ID, Ref: d.Ref, On: d.On}
	}
	return all
}
