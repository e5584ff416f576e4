//go:build race

package needs

// RaceDetector says whether the race detector is on.
const RaceDetector = true
