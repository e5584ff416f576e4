// Package footprint says what one claim locks, and what that makes others wait for,
// in the same words for every database.
package footprint

import "time"

// Footprint is what was seen of a claim that was rolled back.
type Footprint struct {
	Queue   string
	Paused  bool
	Claimed int           // jobs; with 0 there is nothing else to tell
	Took    time.Duration // of the claim
	Locks   []Lock
	Others  []Other
	Note    string // what is unusual about this claim
}

// Lock is what the claim holds until its transaction ends.
type Lock struct {
	On    string `json:"on"`             // such as "table job" or "rows of job"
	Mode  string `json:"mode"`           // as the database calls it
	Rows  int    `json:"rows,omitempty"` // how many, if it is rows that are locked
	Means string `json:"means"`          // whom it stops
}

// Other is something that others do, tried while the claim's transaction was open.
type Other struct {
	What     string
	Took     time.Duration
	WaitsFor string // a lock of the claim; empty: it was done at once
	Untried  bool   // there was nothing to try it on
	Note     string // what there is to say about it
}
