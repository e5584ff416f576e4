package postgres_test

import (
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// TestInterleavingsFindDamage shows that the enumeration can fail: each of these
// statements is wrong in a way that only some orders show.
func TestInterleavingsFindDamage(t *testing.T) {
	server := pgtest.URL(t)
	o := interleavings()
	o.Most = 2000
	open := func(tb testing.TB, rewrite func(name, text string) string) interleave.Bench {
		return newStage(tb, server, rewrite)
	}
	interleave.FindDamage(t, o, open, []interleave.Damage{
		{
			"claims wait for locked rows", "claims beside an enqueue",
			"claim", "limit $3\n                    for no key update skip locked", "limit $3\n                    for no key update", "claim for claim",
		},
		{
			"a finish without its token", "a finish past the lease",
			"complete", "j.token = o.token and ", "", "without a good token",
		},
		{
			"a finish after the lease", "a finish past the lease",
			"complete", "j.lease_until > statement_timestamp() or", "true or", "without a good token",
		},
		{
			"a finish that wakes no group", "a group's place that becomes free",
			"complete", "from gone\n        where group_key is not null", "from gone\n        where false", "nobody told",
		},
		{
			"an enqueue that wakes no group", "the last job of a group beside its next",
			"enqueue", "from added\n        where gate = 1", "from added\n        where false", "nobody told",
		},
		{
			"admissions without a turn", "a group that gets a better job",
			"turn_admit", "when pg_try_advisory_xact_lock($2)", "when $2::bigint is not null", "",
		},
		{
			"a claim from a group that waits to be admitted", "a group's limit that is lowered",
			"claim", "(r.group_key is null or not exists (", "(true or not exists (", "the limit is 1",
		},
		{
			"claims under a limit without a turn", "a limit of 1 that is raised",
			"turn_claim", "for update skip locked", "", "jobs run, the limit is",
		},
		{
			"settlements without a turn", "the last two parents end at once",
			"turn_sweep", "pg_try_advisory_xact_lock($1)", "($1::bigint is not null)", "settle for settle",
		},
		{
			"a finish that lists no job that others come after", "the last two parents end at once",
			"complete", "where g.followed or", "where false or", "which has ended",
		},
		{
			"a settlement that does not look at late followers", "a follower that comes while its parent is completed",
			"edges", "group by (l.place - 1) / 5000", "having false", "waits for job",
		},
		{
			"a requeue beside a settlement", "a parent that is requeued while its end is settled",
			"turn_settle", "pg_advisory_xact_lock($1)", "$1::bigint", "because of",
		},
	})
}
