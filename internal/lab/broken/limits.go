package broken

// Faults of groups and of limits.
var limitVariants = []Variant{
	{
		Name:  "group-one-more",
		Fault: "A group is given one place more than its limit.",
		Harm:  "Jobs that must never run together do.",
		Patches: []Patch{
			{"postgres", "TestStore/groups/one of a group runs at a time, in order", []Edit{
				{"sql/admit.sql", "            coalesce(l.places, q.group_limit) - h.held + u.n\n        ), 0) as free", "            coalesce(l.places, q.group_limit) - h.held + u.n + 1\n        ), 0) as free"},
			}},
			{"sqlite", "TestStore/groups/one of a group runs at a time, in order", []Edit{
				{rows + "group.go", "max(0, g.limit-g.running)", "max(0, g.limit-g.running) + 1"},
			}},
		},
	},
	{
		Name:  "fair-no-turns",
		Fault: "In a fair queue each job of a group gets the queue's turn, whatever turns the group's other jobs have.",
		Harm:  "A group with many places starts all its jobs in one turn: the others wait for them.",
		Patches: []Patch{
			{"postgres", "TestStore/fair/groups with many places take turns", []Edit{
				{"sql/admit.sql", "d.next_turn + t.nth - 1 - coalesce(cardinality(d.turns), 0)", "d.next_turn"},
			}},
			{"sqlite", "TestStore/fair/groups with many places take turns", []Edit{
				{"sql/admit.sql", "(w.wanted ->> 3) + w.nth - 1 - w.taken", "w.wanted ->> 3"},
			}},
		},
		Untortured: "beside other claims on PostgreSQL, a group may start a job in each of its places",
	},
	{
		Name:  "fair-new-group-last",
		Fault: "In a fair queue a group that is new gets a turn after all that the others have.",
		Harm:  "Its first job waits for all jobs that have places.",
		Patches: []Patch{
			{"postgres", "TestStore/fair/a new group waits for one job of each group with many places", []Edit{
				{"sql/admit.sql", "coalesce((select max(turn) from dibs.reached where queue = $1), 1) as turn", "coalesce((select max(turn) + 1 from dibs.job where queue = $1 and gate = 0 and turn is not null), 1) as turn"},
			}},
			{"sqlite", "TestStore/fair/a new group waits for one job of each group with many places", []Edit{
				{"sql/reached.sql", "returning turn, admitted", "returning (select coalesce(max(turn), 0) + 1 from dibs_job where queue = ?1 and gate = 0), admitted"},
			}},
		},
		Untortured: "beside other claims on PostgreSQL, a group may start a job in each of its places",
	},
	{
		Name:  "fair-by-id",
		Fault: "In a fair queue claims take the jobs of one turn by their ids, not by when they got it.",
		Harm:  "A job that is alone in its group waits until groups with older jobs have started all of them.",
		Patches: []Patch{
			{"postgres", "TestStore/fair/a job that is alone in its group waits for its turn only, whoever claims", []Edit{
				{"sql/claim.sql", "order by r.turn, r.admitted, r.id", "order by r.turn, r.id"},
			}},
			{"sqlite", "TestStore/fair/a job that is alone in its group waits for its turn only, whoever claims", []Edit{
				{"sql/fair.sql", "order by turn, admitted, id", "order by turn, id"},
			}},
		},
	},
	{
		Name:  "group-freed-twice",
		Fault: "A job's place in its group is freed when its lease ends, and again by the sweep or its finish.",
		Harm:  "The group's next job starts while the first is still finishing in its transaction.",
		Patches: []Patch{
			{"postgres", "TestStore/tx/a finish that took effect before the lease ended holds", []Edit{
				{"sql/admit.sql", "                count(*) as held,", "                count(*) filter (where j.token is null or j.lease_until > statement_timestamp()) as held,"},
			}},
		},
		Untortured: "its transactions hardly ever outlast their leases",
	},
	{
		Name:  "group-no-turn",
		Fault: "Two processes may give away the places of one group at the same time.",
		Harm:  "Each gives the same free place to another job, and both run.",
		Patches: []Patch{
			{"postgres", "TestOfTwoThatGiveAPlaceOneDoes", []Edit{
				{"sql/turn_admit.sql", "when pg_try_advisory_xact_lock($2)", "when $2::bigint is not null"},
			}},
		},
	},
	{
		Name:  "group-limit-lowered",
		Fault: "A job that has been given a place keeps it when the limit is lowered.",
		Harm:  "More jobs than the new limit allows are started after it was set.",
		Patches: []Patch{
			{"postgres", "TestStore/grouplimits/a limit that shrinks holds from the next claim on", []Edit{
				{"sql/admit.sql", "filter (where r.wanted = r.blocked)", "filter (where r.wanted and r.blocked)"},
			}},
			{"sqlite", "TestStore/grouplimits/a limit that shrinks holds from the next claim on", []Edit{
				{rows + "group.go", "if g.overtaken || q.Order == dibs.Fair && g.turnless > 0 || g.started > most || g.loose > free {", "if g.overtaken {"},
			}},
		},
	},
	{
		Name:  "group-limit-unlocked",
		Fault: "A change of the group limit of a queue does not wait for the admission under way.",
		Harm:  "The admission still gives places by the old limit: more jobs than the new one allows are started after it was set.",
		Patches: []Patch{
			{"postgres", "TestALimitLoweredDuringAnAdmissionHolds/of all groups", []Edit{
				{"queues.go", "append(s.groupLock(q.Name), set)", "[]step{waitBriefly, set}"},
				{"sweep.go", "mended := s.mendNext(ctx)", "var mended error"}, // the end of the sweep would take the places back
			}},
		},
		Untortured: "its admissions hardly ever meet a change of limits and jobs that fall due at once",
	},
	{
		Name:  "group-busy-forgotten",
		Fault: "A group is not admitted again although jobs with places above its limit were locked.",
		Harm:  "When the transaction that locked them rolls back, more jobs start than the lowered limit allows.",
		Patches: []Patch{
			{"postgres", "TestALoweredLimitHolds/when a claiming transaction rolls back", []Edit{
				{"sql/admit.sql", "u.n < coalesce(cardinality(c.ids), 0) as busy", "false as busy"},
			}},
		},
		Untortured: "its transactions hardly ever claim while the limit of a group is lowered",
	},
	{
		Name:  "group-unadmitted",
		Fault: "A claim takes jobs of a group that is still to be admitted anew.",
		Harm:  "After a limit was lowered, jobs start that it does not allow.",
		Patches: []Patch{
			{"postgres", "TestALoweredLimitHolds/over more groups than one admission handles", []Edit{
				{"sql/claim.sql", "                    order by r.run_at, r.id\n", `
                        or m.how = 1
                        and r.queue = $1 and r.gate = 0 and r.priority = m.low
                        and r.run_at <= statement_timestamp()
                        and r.token is null
                    order by r.run_at, r.id
`},
			}},
		},
		Untortured: "it has 24 groups, and one admission handles a thousand",
	},
	{
		Name:  "group-better-passed",
		Fault: "A claim takes the job that holds its group's place although a better job is blocked that no admission has considered yet.",
		Harm:  "Jobs of a group are started out of order.",
		Patches: []Patch{
			{"postgres", "TestAPlaceIsNotUsedBeforeABetterJob", []Edit{
				{"sql/claim.sql", "limit 21", "limit 0"},
			}},
		},
		Untortured: "the jobs of its groups are enqueued in their order",
	},
	{
		Name:  "group-not-woken",
		Fault: "A job that leaves its place does not wake its group.",
		Harm:  "The rest of its group waits for ever.",
		Patches: []Patch{
			{"postgres", "TestStore/groups/a job that waits for its retry lets the next pass", []Edit{
				{"sql/retry.sql", "select queue, group_key from back where group_key is not null\n    union\n    select", "select"},
			}},
			{"sqlite", "TestStore/groups/one of a group runs at a time, in order", []Edit{
				{rows + "finish.go", "\ts.touch(j.queue, j.group)\n\ts.count(", "\ts.count("},
			}},
		},
		Untortured: "the next job or outcome of the group wakes it",
	},
	{
		Name:  "limit-no-turn",
		Fault: "Claims of a queue with a concurrency limit count without taking turns.",
		Harm:  "Two claims that count at the same time fill the same places twice.",
		Patches: []Patch{
			{"postgres", "TestStore/txclaim/the queue's concurrency limit holds", []Edit{
				{"sql/turn_claim.sql", "    for update skip locked\n", ""},
			}},
		},
	},
	{
		Name:  "limit-unseen",
		Fault: "A claim under a concurrency limit does not wait for claims that began before the limit was set.",
		Harm:  "It does not see the jobs that those have taken, and fills the same places again.",
		Patches: []Patch{
			{"postgres", "TestAConcurrencyLimitThatIsSetDuringAClaimHolds", []Edit{
				{"sql/claim.sql", "        and exists (select from turn)\n", ""},
			}},
		},
		Untortured: "no transaction claims from the queue whose limit changes",
	},
	{
		Name:  "limit-counted-early",
		Fault: "A queue is marked as counted although the count skipped rows that a transaction was finishing.",
		Harm:  "Those jobs are not counted against a new limit, and it is exceeded.",
		Patches: []Patch{
			{"postgres", "TestAConcurrencyLimitHolds/that is set while a transaction finishes", []Edit{
				{"sql/count_running.sql", "set counted = (select count(*) from found) = (select count(*) from free)", "set counted = true"},
			}},
		},
		Untortured: "a limit is hardly ever set while outcomes of its queue hold locks",
	},
	{
		Name:  "limit-unfenced",
		Fault: "A concurrency limit does not shut out a claim that took its snapshot before the limit was set, and its locks afterwards.",
		Harm:  "Claims under the limit fill its places, and that claim takes more jobs; they are never counted.",
		Patches: []Patch{
			{"postgres", "TestAClaimThatBeganBeforeTheLimitTakesNothingBesideIt", []Edit{
				{"sql/count_running.sql", "o.counted is null", "o.counted is null and false"},
			}},
		},
		Untortured: "a claim hardly ever stands still between its snapshot and its locks while a limit is set and another claim ends",
	},
	{
		Name:  "rate-one-more",
		Fault: "A rate lets one start more than its burst follow at once.",
		Harm:  "Somebody else's service, which allows so many calls in a minute, refuses one.",
		Patches: []Patch{
			{"postgres", "TestStore/rates/a queue starts no more than its rate and its burst", []Edit{
				{"sql/rate_free.sql", "(($3 - b.owed_ns) / $2) + 1", "(($3 - b.owed_ns) / $2) + 2"},
			}},
			{"sqlite", "TestStore/rates/a queue starts no more than its rate and its burst", []Edit{
				{rows + "rates.go", "min(p.Free(p.full, s.now()*1000), dibs.MaxBatch)", "min(p.Free(p.full, s.now()*1000)+1, dibs.MaxBatch)"},
			}},
		},
	},
	{
		Name:  "rate-start-unseen",
		Fault: "Places of a group are given without regard to starts that its rate has not counted yet.",
		Harm:  "A group with several places starts more jobs than its rate allows.",
		Patches: []Patch{
			{"postgres", "TestStore/rates/a group with several places starts no more than its rate", []Edit{
				{"sql/admit.sql", "array_agg(m.at_ns order by m.at_ns desc) filter (where m.at_ns is not null) as starts", "null::bigint[] as starts"},
			}},
			{"sqlite", "TestStore/rates/a group with several places starts no more than its rate", []Edit{
				{rows + "rates.go", "starts[j.Group]++", "starts[j.Group] += 0"},
			}},
		},
		Untortured: "its groups seldom have more jobs than their rates let start",
	},
	{
		Name:  "rate-of-new-groups",
		Fault: "A group that has no row yet does not get its queue's rate.",
		Harm:  "A new customer gets everything at once, which the rate of each customer was to prevent.",
		Patches: []Patch{
			{"postgres", "TestStore/grouprates/each group of a queue starts no more than the queue's rate for groups", []Edit{
				{"sql/admit.sql", "select coalesce(r.step_ns, t.step_ns) as step_ns", "select r.step_ns as step_ns"},
			}},
			{"sqlite", "TestStore/grouprates/each group of a queue starts no more than the queue's rate for groups", []Edit{
				{rows + "rates.go", "if r = q.GroupRate; own[key].N > 0 {", "_, found := own[key]\n\t\t\tif r = map[bool]dibs.Rate{true: q.GroupRate}[found]; own[key].N > 0 {"},
			}},
		},
		Untortured: "its queues have no rate for all groups",
	},
	{
		Name:  "rate-of-own",
		Fault: "The rate that a queue gives its groups takes the place of a group's own.",
		Harm:  "A customer who pays for more gets no more, and one who was slowed down goes on at full speed.",
		Patches: []Patch{
			{"postgres", "TestStore/grouprates/a group's own rate takes the place of the queue's", []Edit{
				{"sql/admit.sql", "select coalesce(r.step_ns, t.step_ns) as step_ns, coalesce(r.slack_ns, t.slack_ns) as slack_ns", "select coalesce(t.step_ns, r.step_ns) as step_ns, coalesce(t.slack_ns, r.slack_ns) as slack_ns"},
			}},
			{"sqlite", "TestStore/grouprates/a group's own rate takes the place of the queue's", []Edit{
				{rows + "rates.go", "if r = q.GroupRate; own[key].N > 0 {", "if r = q.GroupRate; own[key].N > 0 && r.N == 0 {"},
			}},
		},
		Untortured: "its queues have no rate for all groups",
	},
	{
		Name:  "rate-not-waited",
		Fault: "Claims do not wait until the rate of a group lets those jobs start that keep their places.",
		Harm:  "In a strict queue, a job that fails and is tried again at once takes no notice of the rate.",
		Patches: []Patch{
			{"postgres", "TestStore/rates/in a strict queue a job keeps its place while its rate holds it up", []Edit{
				{"sql/claim.sql", "and b.not_before > statement_timestamp()", "and b.not_before > statement_timestamp() and false"},
			}},
			{"sqlite", "TestStore/rates/in a strict queue a job keeps its place while its rate holds it up", []Edit{
				{"statements.go", `s.named(afterHold)+"order by run_at, id"`, `"order by run_at, id"`},
			}},
		},
		Untortured: "its strict queue has no rates",
	},
}
