package torture

import (
	"fmt"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Row is one line of a verdict.
type Row struct {
	Text string `json:"promise"`
	Want int    `json:"want"`
	Got  int    `json:"got"`
	// Checked is how many cases were examined, if Got counts those that broke the promise.
	Checked int  `json:"checked,omitempty"`
	Kept    bool `json:"kept"`
	// Broken describes the first few cases that broke the promise.
	Broken []string `json:"broken,omitempty"`
	// Sentence says that Text is a promise in full; else it is what must not happen, or what was counted.
	Sentence  bool `json:"-"`
	Undecided int  `json:"-"` // cases that the judge could not decide
}

// mustNotHappen says what breaks each promise that a demo tries, by its number in
// docs/guarantees.md. Promise 8 is left out, since the demo's transactions write no effects.
var mustNotHappen = map[int]string{
	1: "jobs lost, doubled or from nowhere",
	2: "two workers on one job at once",
	3: "outcomes accepted from a worker that lost the job",
	4: "jobs left behind, early, or run after their end",
	5: "attempts uncounted, or counted without a worker",
	6: "groups over their limit or out of order",
	7: "jobs overtaken by less urgent ones",
	9: "unique keys that two jobs held at once",
}

const linearizable = "Linearizability: for each job, one order of all calls explains every answer."

// Rows lists the verdict line by line: in a demo each promise in a few words, else in its sentence. A
// demo leaves out the general checker of linearizability unless that accuses.
func (r *Result) Rows() []Row {
	var rows []Row
	if r.Demo != nil {
		rows = append(rows, r.Demo.Ends...)
	}
	for _, v := range r.tried() {
		row := rowOf(v.Checked, v.Broken)
		switch row.Text = mustNotHappen[v.Number]; {
		case r.Demo == nil:
			row.Text, row.Sentence = fmt.Sprintf("%d. %s", v.Number, v.Promise), true
		case row.Text == "":
			continue
		}
		rows = append(rows, row)
	}
	orders := rowOf(r.Orders.Checked, r.Orders.Broken)
	orders.Text, orders.Sentence, orders.Undecided = linearizable, true, r.Orders.Undecided
	if r.Demo == nil && r.Adopted == "" || !orders.Kept {
		rows = append(rows, orders)
	}
	if r.Demo != nil {
		rows = append(rows, r.Demo.Recovered...)
	}
	return rows
}

func rowOf(checked int, broken []history.Violation) Row {
	row := Row{Got: len(broken), Checked: checked, Kept: len(broken) == 0}
	for _, b := range broken[:min(len(broken), 3)] {
		row.Broken = append(row.Broken, b.Text)
	}
	return row
}
