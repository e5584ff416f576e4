package broken

// Faults of what ends an attempt.
var finishVariants = []Variant{
	{
		Name:  "finish-any-token",
		Fault: "Finish does not compare tokens.",
		Harm:  "A worker that lost its job long ago overwrites what the new owner does.",
		In: []Patch{
			{"postgres", "TestStore/fence/a wrong token is refused", []Edit{
				{"sql/complete.sql", " and j.token = o.token", ""},
				{"sql/retry.sql", " and j.token = o.token", ""},
			}},
			{"sqlite", "TestStore/fence/a wrong token is refused", []Edit{
				{"finish.go", "j == nil || j.token != o.Token ||", "j == nil ||"},
			}},
		},
	},
	{
		Name:  "finish-ended-lease",
		Fault: "Finish takes a token whose lease has ended, until the sweep comes.",
		Harm:  "Whether a late worker is told so depends on chance; by the clock it was no owner any more.",
		In: []Patch{
			{"postgres", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{"sql/complete.sql", "j.lease_until > statement_timestamp() or", "true or"},
				{"sql/retry.sql", "j.lease_until > statement_timestamp() or", "true or"},
			}},
			{"sqlite", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{"finish.go", "j.leaseUntil <= now &&", "false &&"},
			}},
		},
		Untortured: "seen from outside, a finish just before the end of a lease is not told from one just after",
	},
	{
		Name:  "finish-begun-before",
		Fault: "Finish in a caller's transaction goes by the time at which that transaction began.",
		Harm:  "A handler that was too slow ends its job all the same; by the clock it was no owner any more.",
		In: []Patch{
			{"postgres", "TestStore/tx/a lease that ends while the transaction is open is lost", []Edit{
				{"sql/complete.sql", "j.lease_until > statement_timestamp() or", "j.lease_until > transaction_timestamp() or"},
				{"sql/retry.sql", "j.lease_until > statement_timestamp() or", "j.lease_until > transaction_timestamp() or"},
			}},
			{"sqlite", "TestStore/tx/a lease that ends while the transaction is open is lost", []Edit{
				{"tx.go", "s.ctx, s.callTime = ctx, 0", "s.ctx = ctx"},
			}},
		},
		Untortured: "its transactions hardly ever outlast their leases",
	},
	{
		Name:  "finish-old-snapshot",
		Fault: "A retry, snooze or release checks the token in the statement's snapshot, and not again once it has the row's lock.",
		Harm:  "Of two outcomes for one attempt both are accepted: a job that has been given back is given back again, perhaps out of its new owner's hands.",
		In: []Patch{
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
		Fault: "A Finish that goes round a locked row does not say what was refused beside it.",
		Harm:  "A worker takes outcomes of jobs that it has lost for written.",
		In: []Patch{
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
		In: []Patch{
			{"postgres", "TestStore/retry/the attempts run out", []Edit{
				{"sql/retry.sql", "case when h.ending = 'retry' then 0 else 1 end", "1"},
			}},
			{"sqlite", "TestStore/retry/the attempts run out", []Edit{
				{"finish.go", "if o.Ending != dibs.EndRetry {", "if o.Ending != \"\" {"},
			}},
		},
	},
	{
		Name:  "release-counted",
		Fault: "A job that is given back unrun loses an attempt.",
		Harm:  "Deployments kill jobs: each stop of a worker brings what it held closer to dead.",
		In: []Patch{
			{"postgres", "TestStore/finish/release gives the job back in its old place without counting the attempt", []Edit{
				{"sql/retry.sql", "case when h.ending = 'retry' then 0 else 1 end", "case when h.ending = 'snooze' then 1 else 0 end"},
			}},
			{"sqlite", "TestStore/finish/release gives the job back in its old place without counting the attempt", []Edit{
				{"finish.go", "if o.Ending != dibs.EndRetry {", "if o.Ending == dibs.EndSnooze {"},
			}},
		},
	},
	{
		Name:  "resume-shared",
		Fault: "A worker that resumes its jobs gets a new token, but the old one stays good.",
		Harm:  "When the worker was not dead but slow, both run the same jobs.",
		In: []Patch{
			{"postgres", "TestStore/resume/the old tokens are lost", []Edit{
				{"sql/resume.sql", "token = $3,", "token = j.token,"},
			}},
			{"sqlite", "TestStore/resume/the old tokens are lost", []Edit{
				{"sql/resume.sql", "token = ?4,", "token = token,"},
			}},
		},
	},
}
