//go:build race

package needs

// raceDetector says whether the race detector is on.
var raceDetector = true
