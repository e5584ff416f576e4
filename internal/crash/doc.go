// Package crash loads a queue with work and ends processes with SIGKILL meanwhile: those of
// PostgreSQL, or those that use a SQLite file. Afterwards the promises are judged from the
// records of all clients and what is left ([history.Judge]):
//
//   - what was acknowledged is there: every job, and of every finished attempt
//     its state, result and error;
//   - what was refused, or rolled back, is not there;
//   - a call that nobody got an answer to happened as a whole or not at all,
//     its transaction included;
//   - nothing else is there, and the store's own check finds nothing.
//
// Leases are so long that none ends meanwhile, so that no lost lease excuses anything.
//
// That shows that nothing is acknowledged before it is written outside of the process, and
// that what is written in part is repaired or ignored. It does not show that the disk has
// it: the kernel keeps what processes have written. That the disk has it too is left to
// fsync, which PostgreSQL and SQLite use by default.
package crash

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Random is a source of random numbers whose seed is logged and can be given, by
// DIBS_TEST_SEED.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("DIBS_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("DIBS_TEST_SEED: %v", err)
		}
	}
	t.Logf("DIBS_TEST_SEED=%d repeats this", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Times is few, or soak if DIBS_SOAK is set.
func Times(few, soak int) int {
	if os.Getenv("DIBS_SOAK") != "" {
		return soak
	}
	return few
}
