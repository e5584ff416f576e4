package broken

// Faults of leases and of the sweep.
var timeVariants = []Variant{
	{
		Name:  "lease-worker-clock",
		Fault: "A lease ends by the worker's clock, which is five minutes behind the database's.",
		Harm:  "The worker's jobs are given to other workers while it runs them.",
		Patches: []Patch{
			{"postgres", "TestStore/claim/the lease is the queue's or the request's", []Edit{
				{"claim.go", "cmp.Or(r.Lease, q.Lease).Microseconds(), kinds(r.Kinds)", "time.Now().Add(cmp.Or(r.Lease, q.Lease)-5*time.Minute).UnixMicro(), kinds(r.Kinds)"},
				{"sql/claim.sql", "lease_until = statement_timestamp() + ($6", "lease_until = timestamptz 'epoch' + ($6"},
				{"sql/claim.sql", "select $4, statement_timestamp() + ($6", "select $4, timestamptz 'epoch' + ($6"},
			}},
			{"sqlite", "TestStore/claim/the lease is the queue's or the request's", []Edit{
				{rows + "claim.go", "until: now + micro(lease)", "until: time.Now().Add(lease - 5*time.Minute).UnixMicro()"},
			}},
		},
		Untortured: "its workers refuse such a lease and end before they run a job",
	},
	{
		Name:  "extend-ended-lease",
		Fault: "Extend revives a lease that has ended.",
		Harm:  "A worker that hung for an hour goes on with its job, which is about to be given to another.",
		Patches: []Patch{
			{"postgres", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{"sql/extend.sql", "j.token = l.token and j.lease_until > statement_timestamp()", "j.token = l.token"},
			}},
			{"sqlite", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
				{"sql/extend.sql", " and lease_until > ?2", " and ?2 > 0"},
			}},
		},
	},
	{
		Name:  "extend-shorter-unnoticed",
		Fault: "The sweep looks at a shortened lease only when the old one would have ended.",
		Harm:  "A job that is given up early waits until its old, long lease has ended.",
		Patches: []Patch{
			{"postgres", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
				{"sql/extend.sql", "set check_at = least(check_at, statement_timestamp() + ($3::bigint * interval '1 microsecond'))", "set check_at = check_at"},
			}},
			{"sqlite", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
				{"sql/check_earlier.sql", "set check_at = ?2", "set check_at = check_at"},
			}},
		},
	},
	{
		Name:  "sweep-immortal",
		Fault: "The sweep gives a job back even after its last attempt.",
		Harm:  "A job that kills its workers kills them for ever.",
		Patches: []Patch{
			{"postgres", "TestStore/sweep/a job that kills its worker dies too", []Edit{
				{"sql/expire.sql", "j.cancel_requested or (j.attempt::bigint - j.excused) >= j.max_attempts as ends", "j.cancel_requested as ends"},
			}},
			{"sqlite", "TestStore/sweep/a job that kills its worker dies too", []Edit{
				{rows + "sweep.go", "j.after(dibs.Outcome{Ending: dibs.EndRetry})", "j.after(dibs.Outcome{Ending: dibs.EndRelease})"},
			}},
		},
	},
	{
		Name:  "progress-unfenced",
		Fault: "An extension writes the progress of an attempt although its token is no longer good.",
		Harm:  "A worker that has lost its job goes on overwriting the progress of the new owner.",
		Patches: []Patch{
			{"postgres", "TestStore/progress/a stale worker's progress changes nothing", []Edit{
				{"sql/extend.sql", "), sooner as (", `), stale as (
    update dibs.job w
    set progress = l.progress::jsonb || jsonb_build_object('attempt', w.attempt, 'at', statement_timestamp())
    from unnest($1::bigint[], $2::uuid[], $4::text[]) as l (id, token, progress)
    where w.id = any (array[l.id]) and w.token <> l.token and l.progress is not null
), sooner as (`},
			}},
			{"sqlite", "TestStore/progress/a stale worker's progress changes nothing", []Edit{
				{"sql/extend.sql", "and dibs_job.token = l.token and lease_until > ?2", "and (dibs_job.token = l.token and lease_until > ?2 or l.progress is not null)"},
			}},
		},
		Untortured: "its handlers set no progress",
	},
	{
		Name:  "progress-of-any-attempt",
		Fault: "Progress is shown without a look at the attempt that set it.",
		Harm:  "A job that has just begun again seems to be nearly done.",
		Patches: []Patch{
			{"postgres", "TestStore/progress/progress ends with its attempt", []Edit{
				progressOfAnyAttempt,
			}},
			{"sqlite", "TestStore/progress/progress ends with its attempt", []Edit{
				progressOfAnyAttempt,
			}},
		},
		Untortured: "its handlers set no progress",
	},
	{
		Name:  "sweep-one-batch",
		Fault: "A sweep ends after its first batch of claims, however many are waiting.",
		Harm:  "When many workers die at once, their jobs start again far later than 2 s after their leases.",
		Patches: []Patch{
			{"postgres", "TestStore/sweep/many abandoned claims come back with two sweeps", []Edit{
				{"sweep.go", "\t\tif looked < expireBatch {", "\t\tif looked <= expireBatch {"},
			}},
		},
		Untortured: "it never abandons hundreds of claims at once",
	},
	{
		Name:  "sweep-live-lease",
		Fault: "The sweep takes away all jobs of a claim at its check time, whatever their leases.",
		Harm:  "A long job is taken from a worker that extends its lease all the time, and runs twice.",
		Patches: []Patch{
			{"postgres", "TestStore/extend/the jobs of one claim expire one by one", []Edit{
				{"sql/expire.sql", "where h.lease_until <= statement_timestamp() and j.token = h.token and j.lease_until <= statement_timestamp()", "where j.token = h.token"},
			}},
			{"sqlite", "TestStore/extend/the jobs of one claim expire one by one", []Edit{
				{rows + "sweep.go", "\t\tif j.leaseUntil > now {", "\t\tif false {"},
			}},
		},
	},
	{
		Name:  "sweep-old-snapshot",
		Fault: "The sweep checks in its snapshot whether a lease has ended, and not again once it has the row's lock.",
		Harm:  "A job is taken from a worker that has just extended its lease, and runs twice.",
		Patches: []Patch{
			{"postgres", "TestALeaseThatIsJustExtendedIsNotTaken", []Edit{
				{"sql/expire.sql", " and j.token = h.token and j.lease_until <= statement_timestamp()", " and j.token = h.token"},
			}},
		},
		Untortured: "its extensions hardly ever commit just when a sweep checks the same lease",
	},
	{
		Name:  "sweep-any-token",
		Fault: "The sweep takes away the jobs of an old claim, even if another worker has claimed them since.",
		Harm:  "A job is taken from its new owner when an old claim of it ends, and runs twice.",
		Patches: []Patch{
			{"postgres", "TestStore/sweep/an old claim that ends takes nothing from the new owner", []Edit{
				{"sql/expire.sql", "select j.id, j.token, j.lease_until\n", "select j.id, j.token, case when j.token = e.token then j.lease_until else '-infinity' end as lease_until\n"},
				{"sql/expire.sql", "    where j.token = e.token\n", "    where j.token is not null\n"},
				{"sql/expire.sql", " and j.token = h.token and j.lease_until <= statement_timestamp()", " and j.token = h.token"},
			}},
			{"sqlite", "TestStore/sweep/an old claim that ends takes nothing from the new owner", []Edit{
				{rows + "sweep.go", "if j == nil || j.token != c.Token {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif j.leaseUntil > now {", "if j == nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif j.token == c.Token && j.leaseUntil > now {"},
			}},
		},
	},
	{
		Name:  "tick-unlocked",
		Fault: "A process takes the tick of a schedule without locking it.",
		Harm:  "Two processes that look at the same time enqueue a job each.",
		Patches: []Patch{
			{"postgres", "TestATickThatIsUnderWayIsNobodyElses", []Edit{
				{"sql/schedules_due.sql", "limit $1\nfor no key update of s skip locked\n", "limit $1\n"},
			}},
		},
		Untortured: "it sets no schedules",
	},
	{
		Name:  "tick-overlap",
		Fault: "A tick does not look whether the job of the tick before has ended.",
		Harm:  "Jobs run beside each other although their schedule says that they must not.",
		Patches: []Patch{
			{"postgres", "TestStore/schedules/a tick makes no job while the last one has not ended, if the schedule says so", []Edit{
				{"sql/schedules_busy.sql", "where id = any ($1::bigint[])\n", "where id = any ($1::bigint[]) and false\n"},
			}},
			{"sqlite", "TestStore/schedules/a tick makes no job while the last one has not ended, if the schedule says so", []Edit{
				{"sql/schedules_due.sql", "    where j.id = s.last_job\n", "    where j.id = s.last_job and false\n"},
			}},
		},
		Untortured: "it sets no schedules",
	},
}

// progressOfAnyAttempt is the edit of a file that both stores share.
var progressOfAnyAttempt = Edit{
	reads + "job.go", "\tchecks.ReadProgress(j, r.progress)\n",
	"\tlast := j.Attempt\n\tfor j.Attempt = 0; j.Attempt < last && j.Progress == nil; {\n\t\tj.Attempt++\n\t\tchecks.ReadProgress(j, r.progress)\n\t}\n\tj.Attempt = last\n",
}
