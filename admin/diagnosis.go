package admin

import "time"

// Diagnosis is what a store's Diagnose has found.
type Diagnosis struct {
	Now     time.Time // the time on the database's clock
	Facts   []Fact
	Looked  []string  // what was looked at, such as "locks"
	Skipped []Skipped // what could not be looked at
}

// Fact is one thing that may be wrong. What its fields hold depends on its Name;
// 'dibs doctor' puts them into words.
type Fact struct {
	Name  string        // such as "idle_transaction"
	About string        // the queue, table, setting or program
	ID    int64         // the id of a job, or of a process of the database's server.
	N, Of int64         // counts, sizes in bytes or limits
	Age   time.Duration // how long it has lasted
	Text  string        // an error, a value or another detail
}

// Skipped is a part that was not looked at.
type Skipped struct {
	Part string
	Err  error
}
