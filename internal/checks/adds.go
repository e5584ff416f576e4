package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
)

// adds checks the jobs that an outcome adds. Afterwards their payloads are encoded.
func adds(o *dibs.Outcome) error {
	switch {
	case len(o.Add) == 0:
		o.Add = nil
		return nil
	case o.Ending != dibs.EndCompleted:
		return invalid("add", "goes with completed only, not with %s", o.Ending)
	}
	rows, err := Jobs(o.Add, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
	if err != nil {
		return inAdd(err)
	}
	o.Add = slices.Clone(o.Add)
	for i := range rows {
		o.Add[i].Payload = json.RawMessage(rows[i].Payload)
	}
	return nil
}

// inAdd names the list of added jobs in an error of a batch of jobs.
func inAdd(err error) error {
	var rule *dibs.InvalidError
	if errors.As(err, &rule) {
		if field, ok := strings.CutPrefix(rule.Field, "jobs"); ok {
			return &dibs.InvalidError{Field: "add" + field, Reason: rule.Reason}
		}
	}
	return err
}

// Added are the jobs that some outcomes add, in one batch.
type Added struct {
	Rows []Row
	By   []int // for each row, the place of its outcome
}

// AddedBy lists what the outcomes, which must be checked, add. keep says which outcomes count.
func AddedBy(outcomes []dibs.Outcome, keep func(id int64) bool) (Added, error) {
	var all Added
	for i := range outcomes {
		if len(outcomes[i].Add) == 0 || !keep(outcomes[i].ID) {
			continue
		}
		rows, err := Jobs(outcomes[i].Add, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
		if err != nil {
			return Added{}, inBatch(inAdd(err), "outcomes", i)
		}
		for k := range rows {
			for n := range rows[k].Edges {
				if e := &rows[k].Edges[n]; e.ID == 0 {
					e.Place += len(all.Rows)
				}
			}
			all.By = append(all.By, i)
		}
		all.Rows = append(all.Rows, rows...)
	}
	return all, nil
}

// MayBeOlder reports whether some may come after jobs which existed before, but for the one that has added them.
func (a *Added) MayBeOlder(outcomes []dibs.Outcome) bool {
	for i := range a.Rows {
		for _, e := range a.Rows[i].Edges {
			if e.ID != outcomes[a.By[i]].ID && (e.ID != 0 || a.Rows[e.Place].UniqueKey != "") {
				return true
			}
		}
	}
	return false
}

// Explain names the outcome and the added job in an error of the batch.
func (a *Added) Explain(err error) error {
	var rule *dibs.InvalidError
	var row int
	if !errors.As(err, &rule) {
		return err
	}
	if _, scanned := fmt.Sscanf(rule.Field, "jobs[%d]", &row); scanned != nil || row >= len(a.By) {
		return err
	}
	_, field, _ := strings.Cut(rule.Field, "]")
	first := slices.Index(a.By, a.By[row])
	return &dibs.InvalidError{Field: fmt.Sprintf("outcomes[%d].add[%d]%s", a.By[row], row-first, field), Reason: rule.Reason}
}

// TooManyHeirs refuses an outcome that adds so many jobs that those which follow its job would come after too many.
func TooManyHeirs(outcomes []dibs.Outcome, id int64, followers int) error {
	i := slices.IndexFunc(outcomes, func(o dibs.Outcome) bool { return o.ID == id })
	if n := len(outcomes[i].Add); n*followers > dibs.MaxAfter {
		return inBatch(invalid("add", "would have %d jobs that follow job %d come after %d more each, in all more than %d", followers, id, n, dibs.MaxAfter), "outcomes", i)
	}
	return nil
}
