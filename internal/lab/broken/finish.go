package broken

// Faults of verbs that end an attempt.
var finishVariants = []Variant{
	{
		Name:  "finish-any-token",
		Fault: "Finish does not compare tokens.",
		Harm:  "A worker that lost its job long ago overwrites what the new owner does.",
		Patches: []Patch{
			{"postgres", "TestStore/fence/a wrong token is refused", []Edit{
				{"sql/complete.sql", " and j.token = o.token", ""},
				{"sql/retry.sql", " and j.token = o.token", ""},
			}},
			{"sqlite", "TestStore/fence/a wrong token is refused", []Edit{
				{rows + "finish.go", "j == nil || j.token != o.Token ||", "j == nil ||"},
			}},
		},
	},
	{
		Name:  "finish-ended-lease",
		Fault: "Finish accepts a token whose lease has ended, until the sweep takes the job away.",
		Harm:  "Whether a late worker's outcome is refused depends on chance, though its lease has ended.",
		Patches: []Patch{
			{"postgres", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{"sql/complete.sql", "j.lease_until > statement_timestamp() or", "true or"},
				{"sql/retry.sql", "j.lease_until > statement_timestamp() or", "true or"},
			}},
			{"sqlite", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{rows + "finish.go", "j.leaseUntil <= now &&", "false &&"},
			}},
		},
		Untortured: "from outside, a finish just before the end of a lease looks like one just after it",
	},
	{
		Name:  "finish-begun-before",
		Fault: "Finish in a caller's transaction compares the lease with the time at which that transaction began.",
		Harm:  "A handler that was too slow still ends its job, though its lease has ended.",
		Patches: []Patch{
			{"postgres", "TestStore/tx/a lease that ends while the transaction is open is lost", []Edit{
				{"sql/complete.sql", "j.lease_until > statement_timestamp() or", "j.lease_until > transaction_timestamp() or"},
				{"sql/retry.sql", "j.lease_until > statement_timestamp() or", "j.lease_until > transaction_timestamp() or"},
			}},
			{"sqlite", "TestStore/tx/a lease that ends while the transaction is open is lost", []Edit{
				{rows + "tx.go", "s.ctx, s.clock.time = ctx, 0", "s.ctx = ctx"},
				{rows + "session.go", "if s.concurrent() || time.Since(s.clock.readAt) > sharedTime {", "if s.clock.readAt.IsZero() && sharedTime > 0 {"},
			}},
		},
		Untortured: "its transactions hardly ever outlast their leases",
	},
	{
		Name:  "finish-old-snapshot",
		Fault: "A retry, snooze or release checks the token in the statement's snapshot, and not again once it has the row's lock.",
		Harm:  "Two outcomes of one attempt are both accepted: a job that was given back is given back again, perhaps while its new owner runs it.",
		Patches: []Patch{
			{"postgres", "TestOfTwoOutcomesTheOneThatWaitedIsRefused", []Edit{
				{
					"sql/retry.sql", " and j.token = o.token and (j.lease_until > statement_timestamp() or",
					" and exists (select from dibs.job k where k.id = o.id and k.token = o.token and k.lease_until > statement_timestamp()) and (true or",
				},
			}},
		},
		Untortured: "no attempt is ended by two calls at the same time",
	},
	{
		Name:  "finish-lost-unsaid",
		Fault: "A Finish that skips a locked row does not report the other outcomes that it refused.",
		Harm:  "A worker believes that outcomes of lost jobs were written.",
		Patches: []Patch{
			{"postgres", "TestAStaleOutcomeBesideALockedOneIsReported", []Edit{
				{"finish.go", "left.Lost = append(left.Lost, refused.Lost...)", "_ = refused.Lost"},
			}},
		},
		Untortured: "its finishes hardly ever meet a locked row and a lost job at once",
	},
	{
		Name:  "retry-uncounted",
		Fault: "A failed attempt is not counted.",
		Harm:  "A job that can never succeed is retried for ever.",
		Patches: []Patch{
			{"postgres", "TestStore/retry/the attempts run out", []Edit{
				{"sql/retry.sql", "case when h.ending = 'retry' then 0 else 1 end", "1"},
			}},
			{"sqlite", "TestStore/retry/the attempts run out", []Edit{
				{rows + "finish.go", "if o.Ending != dibs.EndRetry {", "if o.Ending != \"\" {"},
			}},
		},
	},
	{
		Name:  "release-counted",
		Fault: "A job that is given back unrun loses an attempt.",
		Harm:  "Deployments kill jobs: each stop of a worker uses up an attempt of each job that it held.",
		Patches: []Patch{
			{"postgres", "TestStore/finish/release gives the job back in its old place without counting the attempt", []Edit{
				{"sql/retry.sql", "case when h.ending = 'retry' then 0 else 1 end", "case when h.ending = 'snooze' then 1 else 0 end"},
			}},
			{"sqlite", "TestStore/finish/release gives the job back in its old place without counting the attempt", []Edit{
				{rows + "finish.go", "if o.Ending != dibs.EndRetry {", "if o.Ending == dibs.EndSnooze {"},
			}},
		},
	},
	{
		Name:  "resume-shared",
		Fault: "A worker that resumes its jobs gets a new token, but the old one stays valid.",
		Harm:  "When the worker was not dead but slow, both run the same jobs.",
		Patches: []Patch{
			{"postgres", "TestStore/resume/the old tokens are lost", []Edit{
				{"sql/resume.sql", "token = $3,", "token = j.token,"},
			}},
			{"sqlite", "TestStore/resume/the old tokens are lost", []Edit{
				{"sql/resume.sql", "token = ?4,", "token = token,"},
			}},
		},
	},
}
