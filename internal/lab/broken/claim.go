package broken

// Faults of claims: which worker gets which job, in which order, and with which records.
var claimVariants = []Variant{
	{
		Name:  "claim-unlocked",
		Fault: "A claim takes jobs without locking them first, and without checking again that they are unclaimed.",
		Harm:  "Two workers run the same job at the same time.",
		Patches: []Patch{
			{"postgres", "TestStore/race/every job is claimed exactly once and none is left", []Edit{
				{"sql/claim.sql", "where j.ctid = any (array(", "where j.id = any (array(select y.id from dibs.job y where y.ctid = any (array("},
				{"sql/claim.sql", "greatest((select n from setting), 0)\n    ))", "greatest((select n from setting), 0)\n    ))))"},
				{"sql/claim.sql", "order by r.run_at, r.id\n                    limit $3\n                    for no key update skip locked", "order by r.run_at, r.id\n                    limit $3"},
			}},
			{"sqlite", "TestStore/claim/it takes at most n, and fewer when there are fewer", []Edit{
				{"sql/claim.sql", "from dibs_job indexed by dibs_job_ready\n  where queue = ?1 and gate = 0 and token is null", "from dibs_job\n  where queue = ?1 and gate = 0"},
				{"sql/lanes.sql", "    where j.queue = ?1 and j.gate = 0 and j.token is null and j.priority = lane.priority", "    where j.queue = ?1 and j.gate = 0 and j.priority = lane.priority"},
				{"sql/lanes.sql", "where queue = ?1 and gate = 0 and token is null and priority > ?2", "where queue = ?1 and gate = 0 and priority > ?2"},
			}},
		},
	},
	{
		Name:  "ahead-of-limits",
		Fault: "Jobs are claimed ahead in queues with a concurrency limit or groups too.",
		Harm:  "Jobs that wait in one worker take the places of jobs that another could start.",
		Patches: []Patch{
			{"postgres", "TestStore/claim/no job is claimed ahead where there are limits", []Edit{
				{"claim.go", "if r.N, r.Ahead = r.N-r.Ahead, 0; r.N == 0 {", "if r.N == 0 {"},
			}},
			{"sqlite", "TestStore/claim/no job is claimed ahead where there are limits", []Edit{
				{rows + "claim.go", "return r.N - r.Ahead, nil", "return r.N, nil"},
				{rows + "claim.go", "min(r.N-r.Ahead, q.Concurrency-running)", "min(r.N, q.Concurrency-running)"},
			}},
		},
		Untortured: "the limits hold all the same",
	},
	{
		Name:  "ahead-kept",
		Fault: "A worker keeps the jobs that it has claimed ahead, however long its handlers take.",
		Harm:  "They wait for its handlers, though other workers are free.",
		Patches: []Patch{
			{".", "TestJobsAheadAreGivenBackWhenHandlersTakeLong", []Edit{
				{"ahead.go", "r.ahead.jobs[0].start.Add(aheadLimit)", "r.ahead.jobs[0].start.Add(time.Hour)"},
			}},
		},
		Untortured: "its handlers are never quick for long",
	},
	{
		Name:  "ahead-unwritten",
		Fault: "A worker claims jobs ahead although it cannot write outcomes.",
		Harm:  "While the database refuses its outcomes, it uses up the attempts of hundreds of jobs.",
		Patches: []Patch{
			{".", "TestUnwrittenOutcomesHoldUpClaims", []Edit{
				{"ahead.go", "|| !r.writes.worked || r.writes.failures > 0 {", "{"},
			}},
		},
		Untortured: "it judges what happens to jobs, not how many attempts a cut costs",
	},
	{
		Name:  "finish-late",
		Fault: "A worker gathers outcomes although others wait for the places that they free.",
		Harm:  "A queue with a limit runs a fraction of the jobs that it could.",
		Patches: []Patch{
			{".", "TestOneClaimFollowsAFinishThatMakesRoom", []Edit{
				{"finish.go", "r.writes.now || h.job.Limited ||", "r.writes.now ||"},
			}},
		},
		Untortured: "5 ms are little beside its cuts",
	},
	{
		Name:  "due-returned",
		Fault: "A worker with several queues is not told of a queue in which jobs were put back below a mark.",
		Harm:  "They wait until another job of their queue wakes the worker.",
		Patches: []Patch{
			{"postgres", "TestAQueueWithAJobBelowItsMarkIsDue", []Edit{
				{"sql/due_queues.sql", "where m.how = 3", "where m.how = 9"},
			}},
		},
		Untortured: "its workers have one queue each",
	},
	{
		Name:  "look-when-idle",
		Fault: "A worker with several queues does not look at the others while one keeps it busy.",
		Harm:  "A job of the first queue that nobody woke it for, such as one that falls due, waits behind all of the last queue's.",
		Patches: []Patch{
			{".", "TestDueJobsOfAnyQueueStartWithinTwoSecondsByPollingAlone", []Edit{
				{"queues.go", "case quiet && (len(open) == 0 || !now.Before(r.claims.pollAt)):", "case quiet && len(open) == 0:"},
			}},
		},
		Untortured: "its workers have one queue each",
	},
	{
		Name:  "tell-assumed",
		Fault: "An enqueue takes its NOTIFY for sent although another transaction was just sending one.",
		Harm:  "Workers of other processes find the job by their next poll, up to 1.8 s later.",
		Patches: []Patch{
			{"postgres", "TestAnEnqueueThatMayNotTellIsToldLater", []Edit{
				{"enqueue.go", "begin: func() { told = false }", "begin: func() { told = true }"},
			}},
		},
		Untortured: "a job that is up to 2 s late counts as in time",
	},
	{
		Name:  "payload-left",
		Fault: "A finish that keeps no history leaves the payload that has a table of its own.",
		Harm:  "The database grows for ever.",
		Patches: []Patch{
			{"postgres", "TestStore/wide/wide payloads go with their jobs", []Edit{
				{"sql/complete.sql", "any (select u.queue, u.state from unkept u)) = true\n        -- for flows", "any (select u.queue, u.state from unkept u)) is null\n        -- for flows"},
			}},
		},
		Untortured: "its payloads are short",
	},
	{
		Name:  "payload-mixed",
		Fault: "Payloads that have a table of their own are given to the wrong jobs of a batch.",
		Harm:  "A job does another one's work.",
		Patches: []Patch{
			{"postgres", "TestStore/wide/wide payloads and metadata stay with their jobs", []Edit{
				{"sql/enqueue.sql", "select array_agg(id order by id) as ids", "select array_agg(id order by id desc) as ids"},
			}},
		},
		Untortured: "its payloads are short",
	},
	{
		Name:  "claim-unlogged",
		Fault: "A claim is not recorded in the log of claims.",
		Harm:  "When its worker dies, the sweep never finds its jobs: they are lost.",
		Patches: []Patch{
			{"postgres", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
				{"sql/claim.sql", "$5, ids\n    from summed\n", "$5, ids\n    from summed\n    where false\n"},
			}},
			{"sqlite", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
				{rows + "claim.go", "\ts.logClaim(c, list)\n", ""},
			}},
		},
	},
	{
		Name:  "claim-uncounted",
		Fault: "A claim does not update the counts.",
		Harm:  "Statistics are wrong from then on.",
		Patches: []Patch{
			{"postgres", "TestStore/stats/each state is counted", []Edit{
				{"sql/claim.sql", "wait_us\n    from summed\n", "wait_us\n    from summed\n    where false\n"},
			}},
			{"sqlite", "TestStore/stats/each state is counted", []Edit{
				{rows + "claim.go", "\t\tt.waiting -= n\n\t\tt.running += n\n", ""},
			}},
		},
		Untortured: "a sweep repairs counts that cannot be right before it ends",
	},
	{
		Name:  "order-priority",
		Fault: "Claims take the largest priority first.",
		Harm:  "Urgent jobs wait behind all others.",
		Patches: []Patch{
			{"postgres", "TestStore/claim/a better job that comes later is next", []Edit{
				{"sql/claim.sql", ") x\n        limit greatest", ") x\n        order by m.low desc\n        limit greatest"},
			}},
			{"sqlite", "TestStore/claim/a better job that comes later is next", []Edit{
				{"sql/lanes.sql", "limit ?5", "order by priority desc\nlimit ?5"},
			}},
		},
	},
	{
		Name:  "order-id",
		Fault: "Of jobs that are due at the same time, the youngest is claimed first.",
		Harm:  "Jobs of one batch run in the wrong order.",
		Patches: []Patch{
			{"postgres", "TestStore/claim/it takes at most n, and fewer when there are fewer", []Edit{
				{"sql/claim.sql", "order by r.run_at, r.id\n", "order by r.run_at, r.id desc\n"},
			}},
			{"sqlite", "TestStore/claim/it takes at most n, and fewer when there are fewer", []Edit{
				{"sql/claim.sql", "order by run_at, id\n", "order by run_at, id desc\n"},
			}},
		},
	},
	{
		Name:  "marks-past-writers",
		Fault: "A mark passes a time although transactions from that time are still open.",
		Harm:  "A job whose enqueuer commits late lies below the mark and does not start.",
		Patches: []Patch{
			{"postgres", "TestMarksPassNothingThatWaits", []Edit{
				{"marks.go", "len(old.running) == 0 {", "len(old.running) >= 0 {"},
			}},
		},
		Untortured: "its claims are hardly ever slow enough to use marks",
	},
	{
		Name:  "marks-past-newest",
		Fault: "Marks do not see an open transaction that is newer than all that have ended.",
		Harm:  "The jobs that it enqueues lie below the marks and do not start.",
		Patches: []Patch{
			{"postgres", "TestMarksMissNothingOfTheNewestTransaction", []Edit{
				{"marks.go", "	running.add(own)\n", ""},
			}},
		},
		Untortured: "its claims are hardly ever slow enough to use marks",
	},
	{
		Name:  "marks-late-forgotten",
		Fault: "Claims do not learn that a transaction which marks have passed over has ended.",
		Harm:  "The jobs that it enqueued or gave up lie below the mark and do not start.",
		Patches: []Patch{
			{"postgres", "TestMarksMissNothingOfALongTransaction/that claimed, and gave up", []Edit{
				{"sql/claim.sql", "where pg_visible_in_snapshot(x.id, (select pg_current_snapshot()))", "where pg_visible_in_snapshot(x.id, (select pg_current_snapshot())) and false"},
			}},
		},
		Untortured: "its claims are hardly ever slow enough to use marks",
	},
	{
		Name:  "marks-half-forgotten",
		Fault: "Marks that were dropped while they were being moved are set all the same, without the transactions that they have passed over.",
		Harm:  "The jobs that such a transaction enqueued or gave up start up to 5 s late.",
		Patches: []Patch{
			{"postgres", "TestMarksPassNothingThatWaits", []Edit{
				{"marks.go", "if from == nil || m.settledAt.IsZero() {", "if from == nil {"},
			}},
		},
		Untortured: "its claims are hardly ever slow enough to use marks",
	},
	{
		Name:  "marks-put-back",
		Fault: "A job whose lease ended is not flagged as put back.",
		Harm:  "It lies below the mark and does not start again.",
		Patches: []Patch{
			{"postgres", "TestMarksMissNothingThatIsPutBack/a job whose lease ended", []Edit{
				{"sql/expire.sql", "        returned = true\n", "        returned = false\n"},
			}},
		},
		Untortured: "its claims are hardly ever slow enough to use marks",
	},
	{
		Name:  "settings-stale",
		Fault: "A process keeps using its old settings after another one has changed them.",
		Harm:  "Pauses and limits hold only in the process that set them.",
		Patches: []Patch{
			{"postgres", "TestStore/concurrency/another store follows at once", []Edit{
				{"sql/claim.sql", "where name = $1 and version = $2 and not paused", "where name = $1 and $2::bigint > 0 and not paused"},
			}},
			{"sqlite", "TestStore/concurrency/another store follows at once", []Edit{
				{"writer.go", "\tif version != w.version {\n\t\tw.memory.Forget()\n", "\tif version != w.version {\n"},
			}},
		},
	},
}
