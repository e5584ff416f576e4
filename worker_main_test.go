package dibs_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestMain also serves as the worker process of the tests that need real ones, and
// fails when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		os.Exit(process())
	}
	needs.Split()
	// The server that all PostgreSQL tests share lives as long as this process.
	goleak.VerifyTestMain(pgtest.M{M: m}, goleak.IgnoreAnyFunction("github.com/dibs-queue/dibs/internal/lab/pgserver.(*Server).run.func1"))
}
