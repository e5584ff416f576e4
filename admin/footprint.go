package admin

import "time"

// Footprint reports on one claim, which was rolled back.
type Footprint struct {
	Queue   string
	Paused  bool
	Claimed int           // number of jobs; with 0 the report is empty
	Took    time.Duration // duration of the claim
	Locks   []Lock
	Others  []Other
	Note    string // anything unusual about the claim
}

// Lock is a lock that the claim holds until its transaction ends.
type Lock struct {
	On    string `json:"on"`             // locked object, such as "table job" or "rows of job"
	Mode  string `json:"mode"`           // the database's name of the lock's mode
	Rows  int    `json:"rows,omitempty"` // number of locked rows
	Means string `json:"means"`          // what the lock blocks
}

// Other is another action, tried while the claim's transaction was open.
type Other struct {
	What     string
	Took     time.Duration
	WaitsFor string // the lock of the claim that blocked it; empty: none did
	Untried  bool   // there was no job to try it on
	Note     string // remark about the result
}
