// Package crash gives a queue work and meanwhile kills processes with SIGKILL: those of
// PostgreSQL, or those that use a SQLite file. Afterwards [history.Judge] judges the promises
// from the records of all clients and from the database:
//
//   - the database holds every acknowledged job, and the state, result and error of
//     every acknowledged finish;
//   - it holds nothing that was refused or rolled back;
//   - a call without an answer, or a transaction whose commit has none, took effect as a
//     whole or not at all;
//   - the database holds nothing else, and the store's own check finds nothing.
//
// Leases are longer than any test, so that no lost lease excuses a violation.
//
// This shows that a store acknowledges nothing before it is written outside of the process,
// and that it repairs or ignores partial writes. It does not show that the data is on the
// disk, since the kernel keeps what killed processes have written. For that, PostgreSQL and
// SQLite use fsync by default.
//
// Its tests also kill processes that look after schedules, and that enqueue unique jobs.
package crash

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
)

// Random returns a source of random numbers. It logs the seed, which DIBS_TEST_SEED can set.
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

// Times returns few, ten times as many in make night, or soak if DIBS_SOAK is set.
func Times(few, soak int) int {
	switch {
	case os.Getenv("DIBS_SOAK") != "":
		return soak
	case needs.AtNight():
		return 10 * few
	}
	return few
}
