package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Each of these faults breaks the store or the table on purpose; the judges must find it.
const (
	noOrder   = "order"    // claims take the last row first
	noGroups  = "groups"   // the mapping names no groups
	noLeases  = "leases"   // leases never end
	noLimit   = "limit"    // the number of running rows has no limit
	allFree   = "all free" // each claim makes all running rows available
	noRefusal = "refusal"  // Finish hides its refusals
	noFence   = "fence"    // Finish writes outcomes that it must refuse
)

func TestFiveTablesJudgesFindWhatIsWrong(t *testing.T) {
	needs.Long(t)
	for _, c := range []struct{ broken, table, want string }{
		{noOrder, "import", "came after a row that is behind it"},
		{noGroups, "jobs", "has not ended"}, // A unique index of the table lets one row of a group run; the others are passed over for a second each, and are late.
		{noLeases, "retrieval", "has not ended"},
		{noLimit, "booking", "ran at once"},
		{allFree, "retrieval", "it had two owners"},
		{noRefusal, "retrieval", "was accepted after another program had ended it"},
		{noFence, "retrieval", "ended 2 times"},
	} {
		t.Run(c.broken, func(t *testing.T) {
			t.Parallel()
			f := &fleet{rows: 900, processes: 2, kills: 1, broken: c.broken, limit: 5 * time.Second}
			for _, o := range slices.Concat(fiveTables, strangeTables) {
				if o.name == c.table {
					f.owned = o
				}
			}
			f.make(t, "sqlite", file(t))
			var said []string
			f.run(t).judge(func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
			if !strings.Contains(strings.Join(said, "\n"), c.want) {
				t.Errorf("the judges said %q, want %q", said, c.want)
			}
		})
	}
}

func file(t testing.TB) string {
	return "file:" + filepath.Join(t.TempDir(), "t.db") + "?_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
}

func spoil(broken string, m mapping.Mapping) mapping.Mapping {
	switch broken {
	case noOrder:
		m.Order = mapping.Columns{"id desc"}
	case noGroups:
		m.Group = mapping.Group{}
	case noLimit:
		m.Concurrency = 0
	case noLeases:
		m.Lease = time.Hour
	}
	return m
}

// breaking is a store with a fault.
func breaking(broken string, other *sql.DB, s *adopt.Store) dibs.Store {
	switch broken {
	case allFree, noRefusal, noFence:
		return &brokenStore{s, broken, other}
	}
	return s
}

type brokenStore struct {
	*adopt.Store
	fault string
	other *sql.DB
}

func (b *brokenStore) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if b.fault == allFree {
		if _, err := b.other.ExecContext(ctx, "update retrieval set mark = null where success is null"); err != nil {
			return nil, err
		}
	}
	return b.Store.Claim(ctx, r)
}

func (b *brokenStore) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	err := b.Store.Finish(ctx, outcomes)
	lost := (*dibs.FinishError)(nil)
	if !errors.As(err, &lost) || b.fault == allFree {
		return err
	}
	for _, id := range lost.Lost {
		if b.fault != noFence {
			break
		}
		if _, err := b.other.ExecContext(ctx, "update retrieval set success = true where retrieval_id = ?", id); err != nil {
			return err
		}
	}
	return nil
}
