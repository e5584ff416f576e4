package broken

// Faults of callers' transactions, unique keys and the clock.
var otherVariants = []Variant{
	{
		Name:  "tx-enqueue-outside",
		Fault: "Tx.Enqueue inserts through the pool, not in the caller's transaction.",
		Harm:  "A job runs for an order that was rolled back.",
		Patches: []Patch{
			{"postgres", "TestStore/tx/what is enqueued is there if and only if the transaction commits", []Edit{
				{"tx.go", "t.s.enqueue(ctx, jobs, t.conn)", "t.s.enqueue(ctx, jobs, t.s.db)"},
			}},
		},
	},
	{
		Name:  "tx-finish-outside",
		Fault: "Tx.Finish checks the token and ends the job at once, and holds nothing until the caller commits.",
		Harm:  "When the transaction rolls back, the job is completed but its effects are gone.",
		Patches: []Patch{
			{"postgres", "TestStore/tx/a finish and its effects happen together or not at all", []Edit{
				{"tx.go", "finisher{conn: t.conn, whole: true, ownTokens", "finisher{conn: t.s.db, whole: true, ownTokens"},
			}},
		},
	},
	{
		Name:  "tx-claim-outside",
		Fault: "Tx.Claim takes jobs through the pool, not in the caller's transaction.",
		Harm:  "A rollback leaves the jobs leased, and their attempts counted.",
		Patches: []Patch{
			{"postgres", "TestStore/txclaim/a rollback gives the jobs back at once, as if never claimed", []Edit{
				{"tx.go", "claimer{conn: t.conn, inTx: true}", "claimer{conn: t.s.db, inTx: true}"},
			}},
		},
	},
	{
		Name:  "tx-finish-by-lease",
		Fault: "A finish in the transaction that claimed the job is refused once the lease has ended.",
		Harm:  "A transaction that takes longer than the lease can never finish its job, though no other worker can claim it.",
		Patches: []Patch{
			{"postgres", "TestStore/txclaim/a finish is good however long the transaction took", []Edit{
				{"sql/complete.sql", "or j.token = any ($6::uuid[])", "or false and j.token = any ($6::uuid[])"},
			}},
			{"sqlite", "TestStore/txclaim/a finish is good however long the transaction took", []Edit{
				{rows + "finish.go", "j.leaseUntil <= now && !s.ownTokens[j.token]", "j.leaseUntil <= now"},
			}},
		},
		Untortured: "its transactions hardly ever outlast their leases",
	},
	{
		Name:  "sql-path",
		Fault: "The functions that enqueue look names up by the caller's search_path.",
		Harm:  "Whoever may enqueue in SQL can have anything done with the rights of the schema's owner.",
		Patches: []Patch{
			{"postgres", "TestNothingPlantedIsUsedByTheFunctions", []Edit{
				{"migrations/0002_enqueue.sql", ") returns bigint\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp as $$", ") returns bigint\nlanguage plpgsql security definer as $$"},
			}},
		},
		Untortured: "it enqueues through the library",
	},
	{
		Name:  "sql-clock",
		Fault: "The functions that enqueue take the time at which the caller's statement began.",
		Harm:  "A job that is enqueued late in a statement can lie below the marks of claims, and does not start.",
		Patches: []Patch{
			{"postgres", "TestTheFunctionsReadTheClockAfterTheTransactionsNumber", []Edit{
				{"migrations/0002_enqueue.sql", "when pg_current_xact_id() is not null then clock_timestamp() end", "when pg_current_xact_id() is not null then statement_timestamp() end"},
			}},
		},
		Untortured: "it enqueues through the library",
	},
	{
		Name:  "sql-quiet",
		Fault: "The functions that enqueue send no NOTIFY.",
		Harm:  "A job that a program enqueues in SQL waits for the next poll of a worker.",
		Patches: []Patch{
			{"postgres", "TestTheFunctionsWakeWhoWaits", []Edit{
				{"migrations/0002_enqueue.sql", "    select pg_notify(left(", "    select concat(left("},
			}},
		},
		Untortured: "it enqueues through the library",
	},
	{
		Name:  "sql-new-queue",
		Fault: "Nobody makes the queues into which the functions have enqueued, nor marks those that got their first group.",
		Harm:  "Their jobs are never claimed.",
		Patches: []Patch{
			{"postgres", "TestTheFunctionsInTransactions", []Edit{
				{"queues.go", "if len(n.names) == 0 {", "if len(n.names) >= 0 {"},
			}},
		},
		Untortured: "it enqueues through the library",
	},
	{
		Name:  "unique-no-index",
		Fault: "Enqueue checks whether a key is held and then inserts, without a unique index.",
		Harm:  "Two callers that enqueue the same key at the same time both insert, and the work is done twice.",
		Patches: []Patch{
			{"postgres", "TestOfTwoThatEnqueueAKeyTheSecondLearnsOfTheFirst", []Edit{
				{"migrations/0001_first.sql", "create unique index job_unique", "create index job_unique"},
				{
					"sql/enqueue_unique.sql", "    order by n.queue, n.unique_key, n.ord\n    on conflict (queue, unique_key) where unique_held do nothing\n",
					`    where n.unique_key is null or not exists (
        select
        from dibs.job h
        where h.queue = n.queue and h.unique_key = n.unique_key and h.unique_held
    ) and n.ord = (
        select min(m.ord)
        from asked m
        where m.queue = n.queue and m.unique_key = n.unique_key
    )
    order by n.queue, n.unique_key, n.ord
`,
				},
			}},
			{"sqlite", "TestStore/unique/of enqueuers at once one inserts and all learn the id", []Edit{
				{"migrations/0001_jobs.sql", "create unique index dibs_job_unique", "create index dibs_job_unique"},
				{"sql/holder.sql", "unique_held = 1", "unique_held = 2"},
			}},
		},
	},
	{
		Name:  "unique-begins-again",
		Fault: "An enqueue of unique jobs that must start over, as a key has become free, keeps what it has inserted.",
		Harm:  "The jobs that it has already inserted are inserted twice.",
		Patches: []Patch{
			{"postgres", "TestABatchThatBeginsAgainInsertsNothingTwice", []Edit{
				{"unique.go", "errors.Join(err, endSavepoint(ctx, c, rollBack))", "errors.Join(err, endSavepoint(ctx, c))"},
			}},
		},
		Untortured: "a key is hardly ever given up just then",
	},
	{
		Name:  "sql-begins-again",
		Fault: "The functions that enqueue keep what they have inserted when they must start over, as a key has become free.",
		Harm:  "The caller is told that a job existed which the same call has inserted.",
		Patches: []Patch{
			{"postgres", "TestTwoCallsWithSeveralKeysNeverWaitForEachOther/from SQL", []Edit{
				{"migrations/0002_enqueue.sql", "                raise exception using errcode = 'DIBS1';\n", "                null;\n"},
			}},
		},
		Untortured: "a key is hardly ever given up just then",
	},
	{
		Name:  "view-not-displacing",
		Fault: "A job inserted into SQLite's view dibs_new_job does not displace a waiting one that comes after it in its group.",
		Harm:  "Jobs of a group run in another order than by priority, run_at and id.",
		Patches: []Patch{
			{"sqlite", "TestNewJobStore/groups/the first by priority runs first", []Edit{
				{"migrations/0002_new_job.sql", "where new.held >= new.places and id = (", "where false and id = ("},
			}},
		},
		Untortured: "torture enqueues through the Go API only",
	},
	{
		Name:  "period-begun-meanwhile",
		Fault: "An enqueue that has waited for another one with the same key and period does not look at what that one has left.",
		Harm:  "Two callers at the same time enqueue two jobs in one period.",
		Patches: []Patch{
			{"postgres", "TestWhoHasWaitedForAPeriodIsKeptOut", []Edit{
				{"sql/take_windows.sql", "    where unique_window.until <= clock_timestamp()\n", ""},
			}},
		},
		Untortured: "it enqueues no jobs with periods",
	},
	{
		Name:  "period-swept",
		Fault: "The sweep deletes periods that have not passed.",
		Harm:  "A job is enqueued a second time in its period.",
		Patches: []Patch{
			{"sqlite", "TestStore/windows/a key is held for its period, whatever becomes of the job", []Edit{
				{"sql/drop_windows.sql", "where until <= ?1", "where ?1 = ?1"},
			}},
			{"postgres", "TestStore/windows/a key is held for its period, whatever becomes of the job", []Edit{
				{"sql/retention.sql", "where w.until <= statement_timestamp()", "where w.until is not null"},
			}},
		},
		Untortured: "it enqueues no jobs with periods",
	},
	{
		Name:  "replace-running",
		Fault: "A job that is replaced may be running.",
		Harm:  "The caller is told that the new payload will be run, but the handler has the old one.",
		Patches: []Patch{
			{"postgres", "TestStore/held/a claim gets what was replaced before it, and the answers agree", []Edit{
				{"sql/lock_holders.sql", " and h.token is null", ""},
				{"sql/replace.sql", " and j.token is null", ""},
			}},
			{"sqlite", "TestStore/held/a claim gets what was replaced before it, and the answers agree", []Edit{
				{rows + "unique.go", "err != nil || len(jobs) == 0 || jobs[0].running", "err != nil || len(jobs) == 0"},
				{"sql/replace.sql", " and token is null", ""},
			}},
		},
		Untortured: "it replaces no jobs",
	},
	{
		Name:  "history-twice",
		Fault: "The sweep leaves in the tally what it has added to the history.",
		Harm:  "The chart of the last hour shows the same jobs twice, and more with each sweep.",
		Patches: []Patch{
			{"postgres", "TestStore/history/what upkeep moves to the history counts once", []Edit{
				{"sql/merge_tally.sql", "running, completed, dead, cancelled)\n    select\n        queue,\n        '-infinity',\n", "running, completed, dead, cancelled, enqueued, at)\n    select\n        queue,\n"},
				{"sql/merge_tally.sql", "        sum(cancelled) % 1e18\n    from old", "        sum(cancelled) % 1e18,\n        sum(enqueued),\n        max(at)\n    from old"},
				{"sql/merge_tally.sql", "dibs.tally (queue, at, waiting", "dibs.tally (queue, waiting"},
			}},
			{"sqlite", "TestStore/history/what upkeep moves to the history counts once", []Edit{
				{rows + "sweep.go", `s.later("add_history", first, kept)`, `s.later("add_history", first+windowMinutes, kept)`},
			}},
		},
		Untortured: "it looks at jobs, not at what happened in a minute",
	},
	{
		Name:  "clock-back",
		Fault: "The database's time goes back when the system's clock does.",
		Harm:  "Leases that had ended are valid again, beside those of the new owners.",
		Patches: []Patch{
			{"sqlite", "TestTimeNeverRunsBackwards", []Edit{
				{"sql/clock.sql", "now = max(now + 1, iif(system >= now, system, now + (system - seen) / 2)),", "now = system,"},
			}},
		},
		Untortured: "it does not set the clock",
	},
}
