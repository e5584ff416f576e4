package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/dibs-queue/dibs"
)

// turn is a job's turn in a fair queue, and the number of the admission that gave it. The zero turn is of jobs without
// one, which come last.
type turn struct{ n, admission int }

func (t turn) compare(u turn) int {
	last := func(t turn) int {
		if t.n == 0 {
			return math.MaxInt
		}
		return t.n
	}
	return cmp.Or(cmp.Compare(last(t), last(u)), cmp.Compare(t.admission, u.admission))
}

// newTurns returns the turns of the first jobs of a group, sorted, in a fair queue; otherwise nil. Jobs that keep their
// places in a strict queue keep their turns. Others share the turns that the waiting ones of them have, if a better
// job has come or places are lost; those that get none go on after the last turn of the group, and not before the
// queue's.
func (m *Model) newTurns(q *queue, sorted []*job, places int) []turn {
	if q.Order != dibs.Fair {
		return nil
	}
	started := func(j *job) bool { return q.Strict && j.holdsPlace && j.Attempt > 0 && j.turn.n > 0 }
	held, last, blocked := 0, 0, len(sorted) // blocked: the first job without a place
	for i, j := range sorted {
		if j.holdsPlace {
			held++
			last = max(last, j.turn.n)
		} else if blocked == len(sorted) {
			blocked = i
		}
	}
	competes := make([]bool, len(sorted)) // for the turns of the others that compete
	for i, j := range sorted {
		competes[i] = j.holdsPlace && !started(j) && (held > places || i > blocked || j.turn.n == 0)
	}
	if !m.AtOnce && slices.Contains(competes, true) {
		for i, j := range sorted {
			competes[i] = j.holdsPlace && !started(j)
		}
	}
	var old []turn
	for i, j := range sorted {
		if competes[i] && j.turn.n > 0 {
			old = append(old, j.turn)
		}
	}
	slices.SortFunc(old, turn.compare)
	next := max(q.turn, last+1, 1)
	turns := make([]turn, len(sorted))
	for i, j := range sorted {
		switch {
		case j.holdsPlace && !competes[i]:
			turns[i] = j.turn
		case len(old) > 0:
			turns[i], old = old[0], old[1:]
		default:
			turns[i] = turn{next, m.admission}
			next++
		}
	}
	return turns
}

// beginTurns takes away the turns that jobs have from a time when their queue was fair before.
func (m *Model) beginTurns(q *queue) {
	for _, j := range m.find(func(j *job) bool { return j.Queue == q.Name }) {
		switch {
		case j.Group == "" || j.State != dibs.Running && !j.holdsPlace:
		case q.Strict && j.Attempt > 0:
			j.turn = turn{1, 0}
		default:
			j.turn = turn{}
		}
	}
}
