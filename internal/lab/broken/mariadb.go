package broken

// mariadbPatches are the patches of MariaDB's statements, by the names of the variants that other databases have too.
var mariadbPatches = map[string]Patch{
	"claim-unlocked": {"mysql", "TestStore/race/every job is claimed exactly once and none is left", []Edit{
		{"sql/claim.sql", "      for update skip locked\n", ""},
	}},
	"claim-unlogged": {"mysql", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
		{"sql/log_claim.sql", "values (?1, ?2, ?3, ?4, ?5)", "select ?1, ?2, ?3, ?4, ?5 from dual where false"},
	}},
	"order-priority": {"mysql", "TestStore/claim/a better job that comes later is next", []Edit{
		{"sql/lanes.sql", "order by priority\n", "order by priority desc\n"},
	}},
	"order-id": {"mysql", "TestStore/claim/it takes at most n, and fewer when there are fewer", []Edit{
		{"sql/claim.sql", "order by j.run_at, j.id\n", "order by j.run_at, -j.id\n"},
	}},
	"finish-any-token": {"mysql", "TestStore/fence/a wrong token is refused", []Edit{
		{rows + "finish.go", "j == nil || j.token != o.Token ||", "j == nil ||"},
	}},
	"finish-ended-lease": {"mysql", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
		{rows + "finish.go", "j.leaseUntil <= now &&", "false &&"},
	}},
	"finish-old-snapshot": {"mysql", "TestStore/fence/of two that finish at once one is refused", []Edit{
		{"sql/held.sql", "where j.gate = 3\nfor update skip locked\n", "where j.gate = 3\n"},
	}},
	"release-counted": {"mysql", "TestStore/finish/release gives the job back in its old place without counting the attempt", []Edit{
		{"sql/give_back.sql", "j.excused = j.excused + ?3", "j.excused = j.excused + 0 * ?3"},
	}},
	"resume-shared": {"mysql", "TestStore/resume/the old tokens are lost", []Edit{
		{"sql/resume.sql", "j.token = ?4,", "j.token = coalesce(j.token, ?4),"},
	}},
	"extend-ended-lease": {"mysql", "TestStore/fence/an ended lease is refused, swept or not", []Edit{
		{"sql/extend.sql", "and j.lease_until > ?2", "and ?2 > 0"},
	}},
	"extend-shorter-unnoticed": {"mysql", "TestStore/sweep/a job whose lease ended waits again in its old place", []Edit{
		{"sql/check_earlier.sql", "set c.check_at = least(c.check_at - 1, ?2)", "set c.check_at = c.check_at"},
	}},
	"progress-unfenced": {"mysql", "TestStore/progress/a stale worker's progress changes nothing", []Edit{
		{
			"sql/extend.sql", "where j.token = unhex(i.token) and j.lease_until > ?2",
			"where j.token = unhex(i.token) and j.lease_until > ?2 or json_exists(?1, concat('$[', i.nth - 1, '].progress'))",
		},
	}},
	"sweep-live-lease": {"mysql", "TestStore/extend/the jobs of one claim expire one by one", []Edit{
		{rows + "sweep.go", "\t\tif j.leaseUntil > now {", "\t\tif false {"},
	}},
	"tick-overlap": {"mysql", "TestStore/schedules/a tick makes no job while the last one has not ended, if the schedule says so", []Edit{
		{"sql/schedules_due.sql", "    where j.id = s.last_job\n", "    where j.id = s.last_job and false\n"},
	}},
	"group-one-more": {"mysql", "TestStore/groups/one of a group runs at a time, in order", []Edit{
		{"sql/places.sql", "coalesce(sum(h.place = 3), 0)", "coalesce(sum(h.place = 3), 0) - 1"},
	}},
	"group-no-turn": {"mysql", "TestStore/race/groups never run more than their limit, whichever it is just now", []Edit{
		{"sql/take_turn.sql", "  limit 1\n  for update skip locked\n", "  limit 1\n"},
	}},
	"group-limit-lowered": {"mysql", "TestStore/grouplimits/a limit that shrinks holds from the next claim on", []Edit{
		{"sql/displace.sql", "where not y.started or y.nth > ?5", "where false or ?5 < 0"},
	}},
	"group-not-woken": {"mysql", "TestStore/groups/one of a group runs at a time, in order", []Edit{
		{"sql/wake.sql", "group_key varchar(255) character set utf8mb4 path '$[1]')) l\n", "group_key varchar(255) character set utf8mb4 path '$[1]')) l\nwhere false\n"},
	}},
	"limit-no-turn": {"mysql", "TestStore/race/the queue never runs more than its limit, whichever it is just now", []Edit{
		{"sql/take_turn.sql", "  limit 1\n  for update skip locked\n", "  limit 1\n"},
	}},
	"rate-start-unseen": {"mysql", "TestStore/rates/a group with several places starts no more than its rate", []Edit{
		{"sql/start.sql", "values (?1, ?2, ?3)", "select ?1, ?2, ?3 from dual where false"},
	}},
	"rate-of-new-groups": {"mysql", "TestStore/grouprates/each group of a queue starts no more than the queue's rate for groups", []Edit{
		{"sql/rates.sql", "and r.group_key = i.name", "and r.group_key = i.name and r.n > 0"},
	}},
	"rate-not-waited": {"mysql", "TestStore/rates/in a strict queue a job keeps its place while its rate holds it up", []Edit{
		{"statements.go", `strings.Replace(text["claim"], "having", s.named(afterHold)+"having", 1)`, `text["claim"]`},
	}},
	"fair-no-turns": {"mysql", "TestStore/fair/groups with many places take turns", []Edit{
		{"sql/admit.sql", "turn + i.nth - 1 - json_length(turns)", "turn"},
	}},
	"flow-requeued-free": {"mysql", "TestStore/flows/a requeued follower waits again for the jobs that it comes after", []Edit{
		{"sql/reopen_edges.sql", "set e.stage = i.stage", "set e.stage = 0 * i.stage"},
	}},
	"flow-parent-deleted": {"mysql", "TestStore/flows/an ended job is kept until its followers have ended", []Edit{
		{"sql/sweep_due.sql", "f.state = 'completed' and f.followed = 0", "f.state = 'completed'"},
		{"sql/prune_steps.sql", " and f.followed = 0", ""},
		{"sql/prune_steps.sql", " and l.followed = 0", ""},
	}},
	"add-unfollowed": {"mysql", "TestStore/add/what follows a job follows what it adds, through more than one step", []Edit{
		{"sql/inherit.sql", "where e.need <> 'failed'", "where e.need = 'failed'"},
	}},
	"period-swept": {"mysql", "TestStore/windows/a key is held for its period, whatever becomes of the job", []Edit{
		{"sql/drop_windows.sql", "l.unique_key = u.unique_key and l.until <= ?1", "l.unique_key = u.unique_key"},
		{"sql/drop_windows.sql", "where u.until <= ?1", "where u.until > 0"},
	}},
	"replace-running": {"mysql", "TestStore/held/a claim gets what was replaced before it, and the answers agree", []Edit{
		{rows + "unique.go", "err != nil || len(jobs) == 0 || jobs[0].running", "err != nil || len(jobs) == 0"},
		{"sql/replace.sql", " and gate <> 3", ""},
	}},
	"history-twice": {"mysql", "TestStore/history/what upkeep moves to the history counts once", []Edit{
		{"sql/fold_tally.sql", "case when t.minute < ?2 then 0 else t.minute end as folded", "case when t.minute < 0 * ?2 then 0 else t.minute end as folded"},
		{"sql/fold_tally.sql", "sum(case when t.minute < ?2 then 0 else t.enqueued end)", "sum(t.enqueued)"},
	}},
	"others-key-unlocked": {"mysql", "TestAKeyOfAnOpenTransactionIsLocked", []Edit{
		{"sql/lock_keys.sql", "  limit 1000000\n  for update skip locked\n", "  limit 1000000\n"},
	}},
	"others-queue-deleted": {"mysql", "TestAQueueIntoWhichAnOpenTransactionEnqueuesIsNotDeleted", []Edit{
		{"sql/share_turn.sql", "  limit 1\n  lock in share mode skip locked\n", "  limit 1\n"},
	}},
	"others-busy-lost": {"mysql", "TestALeaseThatIsBeingExtendedIsNotLost", []Edit{
		{"sql/tokens.sql", "where j.token is not null", "where j.token is null"},
	}},
	"others-held-missing": {"mysql", "TestACancelOfALockedJobSaysThatItWasNotDone", []Edit{
		{"sql/present.sql", "straight_join dibs_job j force index (primary) on j.id = i.id", "straight_join dibs_job j force index (primary) on j.id = -i.id"},
	}},
	"flow-locked-forgotten": {"mysql", "TestAFollowerOfAJobThatAnOpenTransactionEndsStarts", []Edit{
		{"sql/unfollowed.sql", "where j.followed = 0", "where j.followed < 0"},
	}},
	"others-settings-lost": {"mysql", "TestStore/settings/changes of settings made at the same time are all made", []Edit{
		{"sql/set_queue.sql", "and version = ?1", "and ?1 is not null"},
	}},
	"others-counts-unread": {"mysql", "TestStore/stats/after a random history the counts equal reality", []Edit{
		{"sql/drop_folded.sql", "t.id = i.id", "t.id >= i.id"},
	}},
}

// untried says why the torture is not tried on these.
const untried = "it is tried on faults of PostgreSQL and SQLite only"

// Faults of MariaDB's statements that no other database can have.
var mariadbVariants = []Variant{
	{
		Name:  "key-unheld",
		Fault: "A unique key does not say which job holds it.",
		Harm:  "Two jobs hold one key.",
		Patches: []Patch{
			{"mysql", "TestStore/unique/a held key inserts nothing and tells its holder", []Edit{
				{"sql/hold_key.sql", "set job = ?3", "set job = nullif(?3, ?3)"},
			}},
		},
		Untortured: untried,
	},
	{
		Name:  "key-kept-claimed",
		Fault: "A job that holds its unique key only until it is claimed keeps it.",
		Harm:  "What happens while the job runs is not taken up by another one.",
		Patches: []Patch{
			{"mysql", "TestStore/unique/a key until claimed is free from the first claim on", []Edit{
				{"sql/free_key.sql", "set j.unique_held = 0", "set j.unique_held = j.unique_held"},
			}},
		},
		Untortured: untried,
	},
	{
		Name:  "group-wake-unread",
		Fault: "A claim does not look again for groups to be settled once it has locked their jobs.",
		Harm:  "It takes jobs by places that are to be given anew.",
		Patches: []Patch{
			{"mysql", "TestAClaimLooksAgainForGroupsToBeSettled", []Edit{
				{"sql/claim.sql", "where w.queue = j.queue and w.group_key = j.group_key and w.not_before <= ?3", "where false"},
			}},
		},
		Untortured: untried,
	},
	{
		Name:  "isolation-unseen",
		Fault: "The look for a transaction's isolation tries another row than the transaction has looked for.",
		Harm:  "A caller's transaction in REPEATABLE READ works on an old snapshot.",
		Patches: []Patch{
			{"mysql", "TestTransactionsWithAnotherIsolationAreRefused", []Edit{
				{"sql/try_gap.sql", "('gap', ?1)", "('gap other', ?1)"},
			}},
		},
		Untortured: untried,
	},
}
