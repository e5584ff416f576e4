package dibstest

import "time"

var ClosePool = closePool

// SetPatience changes how long calls wait, until the end of a test.
func SetPatience(d time.Duration) (undo func()) {
	before := patience
	patience = d
	return func() { patience = before }
}
