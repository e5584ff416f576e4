package dibs

import "time"

// Rate limits how many attempts start, over all workers: never more than N + Burst in any time
// as long as Per, on the database's clock, and close to N per Per while there is work. The zero
// Rate is no limit.
//
// Every claim of a job counts, of a first attempt and of every later one, and it counts even if
// the worker dies at once. Only a claim in a caller's transaction that is rolled back does not.
//
// Starts that were not needed are saved up, Burst of them at most. With a Burst below 3 % of an
// N of 25 or more, up to 3 % of the rate make up for the moments by which workers are late.
type Rate struct {
	N     int           `json:"n"`     // 0: no limit; at most one per microsecond, and 1,000,000,000
	Per   time.Duration `json:"per"`   // 1 s to 31 days
	Burst int           `json:"burst"` // 0 or more; at this rate it must take at most ten years
}

// Group is the settings of one group that has any of its own, or that the queue's GroupRate holds up.
type Group struct {
	Name  string `json:"name"`
	Limit int    `json:"limit,omitempty"` // how many of its jobs run at once; 0: the queue's GroupLimit
	Rate  Rate   `json:"rate,omitzero"`   // its own; zero: the queue's GroupRate
	// HeldUntil is when its next job may start, if jobs wait for that; else zero.
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// GroupChange changes the settings it names; nil fields stay as they are. Its Apply is a function for ChangeGroup.
type GroupChange struct {
	Limit *int  // 0: the queue's GroupLimit again
	Rate  *Rate // the zero Rate: the queue's GroupRate again, or no limit if that is zero too
}

// Apply changes the settings that c names. It only fails if g is nil.
func (c GroupChange) Apply(g *Group) error {
	if g == nil {
		return &InvalidError{"group", "is nil"}
	}
	apply(c, g)
	return nil
}
