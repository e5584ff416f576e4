package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Stores stand for processes here: each has the file open by itself. On Linux the line is in the order of asking;
// /proc/locks tells that a process has asked, which happens a moment after its transaction wants the turn.
func TestProcessesWriteInTheOrderInWhichTheyAsked(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	first := openAt(t, path, sqlite.Options{})
	others := make([]*sqlite.Store, 8)
	for i := range others {
		others[i] = openAt(t, path, sqlite.Options{})
		others[i].WaitInLine(time.Hour)
	}
	waiting := waitingFor(t, path+sqlite.LineSuffix)
	tx, err := first.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]<-chan int64, len(others))
	for i, s := range others {
		ids[i] = enqueued(t, s)
		waitUntil(t, func() bool { return waiting() == i+1 })
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var order []int64
	for _, id := range ids {
		order = append(order, <-id)
	}
	if !slices.IsSorted(order) {
		t.Errorf("jobs got the ids %v, in the order in which their processes asked to write", order)
	}
}

// waitingFor returns how many wait for the lock of a file, by the system's list.
func waitingFor(t *testing.T, path string) func() int {
	t.Helper()
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		t.Fatal(err)
	}
	waiter := regexp.MustCompile(fmt.Sprintf(`(?m)^\d+:\s+-> FLOCK .*:%d \d+ \w+$`, file.Ino))
	return func() int {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			needs.Missing(t, "the system's list of locks: %v", err)
		}
		return len(waiter.FindAll(locks, -1))
	}
}
