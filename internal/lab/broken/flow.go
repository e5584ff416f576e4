package broken

// noFlows says why the torture finds no fault of jobs that come after others.
const noFlows = "no job of it comes after another"

// Faults of jobs that come after others.
var flowVariants = []Variant{
	{
		Name:  "flow-end-unlisted",
		Fault: "The statement that completes a job does not list it for those that come after it.",
		Harm:  "Followers wait until upkeep finds them, which looks at a few hundred jobs every ten seconds.",
		Patches: []Patch{
			{"postgres", "TestTheLastTwoParentsEndAtOnce", []Edit{
				{"sql/complete.sql", "where g.followed or (g.flow", "where false or (g.flow"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-mark-unread",
		Fault: "A finish that waits for a job's row lists it by what its snapshot says of followers, and not by the newest row.",
		Harm:  "A follower that came just before the end of a job waits as if the job still ran.",
		Patches: []Patch{
			{"postgres", "TestAFinishReadsTheMarkThatItHasWaitedFor", []Edit{
				{"sql/complete.sql", "where g.followed or (g.flow", "where exists (select from dibs.job s where s.id = g.id and s.followed) or (g.flow"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-late-unlisted",
		Fault: "Nobody looks at a follower of a job that was there before.",
		Harm:  "If the job has ended by then, or ends before anybody knows of the follower, the follower waits.",
		Patches: []Patch{
			{"postgres", "TestAFollowerIsCommittedAfterTheEndOfItsParent", []Edit{
				{"sql/edges.sql", "group by (l.place - 1) / 5000", "having false"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-locked-forgotten",
		Fault: "A follower is not looked at again if the row of the job that it comes after was locked.",
		Harm:  "That job may be ending in an open transaction, which knows of no follower; the follower waits.",
		Patches: []Patch{
			{"postgres", "TestAFollowerComesBesideTheEndOfItsParent", []Edit{
				{"sql/settle_take.sql", "where (u.id in (select l.id from locked l)) = false", "where u.id < 0"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-settled-together",
		Fault: "A settlement goes on without its turn, in a snapshot that lacks what another one is just closing.",
		Harm:  "Of the last two parents that end at once, each settlement sees the other's edge open, and the follower never starts.",
		Patches: []Patch{
			{"postgres", "TestInterleavings/the last two parents end at once", []Edit{
				{"sql/turn_sweep.sql", "pg_try_advisory_xact_lock($1)", "($1::bigint is not null)"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-listed-early",
		Fault: "A finish lists a job for those that come after it before it has ended.",
		Harm:  "A settlement in between finds that the job lives and drops it from the list; the follower waits.",
		Patches: []Patch{
			{"postgres", "TestInterleavings/two settlements of the last two parents", []Edit{
				{"sql/complete.sql", "where g.followed or (g.flow", "where false or (g.flow"},
				{"finish.go", "\tvar ended, given []written\n", listedEarly + "\tvar ended, given []written\n"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-requeued-meanwhile",
		Fault: "A requeue does not wait for the settlement of the job's end.",
		Harm:  "The settlement cancels, because of a job that lives again, followers that have just been brought back.",
		Patches: []Patch{
			{"postgres", "TestInterleavings/a parent that is requeued while its end is settled", []Edit{
				{"sql/turn_settle.sql", "select pg_advisory_xact_lock($1)", "select $1::bigint"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-requeued-free",
		Fault: "A job that is requeued does not wait again for those that it comes after.",
		Harm:  "It starts before they have ended.",
		Patches: []Patch{
			{"postgres", "TestStore/flows/a requeued follower waits again for the jobs that it comes after", []Edit{
				{"sql/reopen_edges.sql", "select d.child from judged d where d.open)", "select d.child from judged d where d.child < 0)"},
			}},
			{"sqlite", "TestStore/flows/a requeued follower waits again for the jobs that it comes after", []Edit{
				{rows + "manage.go", "waiting[j.ID] {\n\t\t\tj.Gate", "waiting[-j.ID] {\n\t\t\tj.Gate"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-unsettled",
		Fault: "The end of a job does nothing for those that come after it.",
		Harm:  "Followers wait until upkeep finds them, which looks at a few hundred jobs every ten seconds.",
		Patches: []Patch{
			{"sqlite", "TestStore/flows/each job of a chain starts after the one before it is completed", []Edit{
				{rows + "settle.go", "if l.followed || l.inFlow {", "if false {"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-no-cause",
		Fault: "A job that is cancelled because of another does not say which.",
		Harm:  "Nobody learns why it was cancelled, and a requeue of that job does not bring it back.",
		Patches: []Patch{
			{"sqlite", "TestStore/flows/a job that dies cancels its followers level by level, with the cause", []Edit{
				{rows + "settle.go", "Cause: cause, links", "links"},
			}},
		},
		Untortured: noFlows,
	},
	{
		Name:  "flow-parent-deleted",
		Fault: "A deletion takes ended jobs whose followers have not ended.",
		Harm:  "A follower finds no results of what came before it.",
		Patches: []Patch{
			{"postgres", "TestStore/flows/an ended job that its followers need is not deleted", []Edit{
				{"sql/delete.sql", "and not exists (", "and true or exists ("},
			}},
			{"sqlite", "TestStore/flows/an ended job is kept until its followers have ended", []Edit{
				{"sql/prune.sql", " and followed = 0", ""},
				{"sql/sweep_due.sql", "?1 - max(1, q.keep_completed) and f.followed = 0", "?1 - max(1, q.keep_completed)"},
				{"sql/sweep_due.sql", "?1 - max(1, q.keep_dead) and f.followed = 0", "?1 - max(1, q.keep_dead)"},
			}},
		},
		Untortured: noFlows,
	},
}

const listedEarly = `	if ids := idsOf(final); len(ids) > 0 {
		if err := s.db.run(ctx, step{sql: "insert into " + s.o.schema() + ".ended_list (ids) values ($1)", args: []any{ids}}); err != nil {
			return nil, err
		}
	}
`
