package mysql_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// between is a transaction in which a claim is stopped once it has locked jobs.
type between struct {
	*sql.Tx
	locked func()
}

func (b between) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	result, err := b.Tx.ExecContext(ctx, text, args...)
	if strings.Contains(text, "having locked is not null") && strings.Contains(text, "l.priority =") {
		b.locked()
	}
	return result, err
}

// A claim's first look for groups to be settled is as old as its statement, its locks are not. So it looks again once it has
// locked the jobs of a group.
func TestAClaimLooksAgainForGroupsToBeSettled(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}, {Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(ctx); err != nil { // the job of the group gets its place
		t.Fatal(err)
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is kept
	stopped := 0
	claimed, err := s.SQLTx(between{tx, func() {
		if stopped++; stopped > 1 {
			return
		}
		if _, err := s.DB().ExecContext(ctx, "insert into dibs_wake (queue, group_key, not_before) values ('q', 'g', 0)"); err != nil {
			t.Error(err)
		}
	}}).Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2})
	if err != nil || stopped == 0 || len(claimed) != 1 || claimed[0].Group != "" {
		t.Errorf("the claim was stopped %d times, and got %v, %v; want the job without a group", stopped, claimed, err)
	}
}
