package broken

// onlyTests says why the torture finds no fault of internal/rowstore's concurrent mode.
const onlyTests = "only tests work in this mode so far"

// Faults of the code for databases in which others write at the same time. Tests run it on SQLite.
var concurrentVariants = []Variant{
	{
		Name:  "others-starts-first",
		Fault: "An admission reads the starts of claims before it counts the places of groups.",
		Harm:  "A job that starts in between is counted as neither, so that its group's rate lets one more start.",
		Patches: []Patch{
			{"sqlite", "TestAStartBesideAnAdmissionCounts/before places", []Edit{
				{rows + "group.go", "\tgroups, err := s.places(q, keys)", startsFirst + "\tgroups, err := s.places(q, keys)"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-turn-ignored",
		Fault: "A claim under a limit goes on without its turn.",
		Harm:  "Two claims count the same running jobs, and more run than the limit allows.",
		Patches: []Patch{
			{"sqlite", "TestClaimsWithoutTheirTurnTakeNothing", []Edit{
				{rows + "concurrent.go", "if err != nil || !got || now == nil", "if got = true; err != nil || !got || now == nil"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-old-settings",
		Fault: "A claim goes by the settings that it read before it had its turn.",
		Harm:  "More jobs run than a limit allows that was set just then.",
		Patches: []Patch{
			{"sqlite", "TestALimitThatIsSetBesideAClaimHolds", []Edit{
				{rows + "concurrent.go", " || now.limited() != q.limited() {", " {"},
				{rows + "concurrent.go", "\treturn now, nil\n", "\treturn q, nil\n"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-held-displaced",
		Fault: "A job that another transaction holds is taken for one that has lost its place.",
		Harm:  "More jobs of its group run than the limit allows.",
		Patches: []Patch{
			{"sqlite", "TestAJobThatIsHeldKeepsItsPlace/claimed=true", []Edit{
				{rows + "group.go", "g.busy = g.out.started < g.started-most || g.out.loose < g.loose", "g.busy = false"},
				{rows + "group.go", "g.started-g.out.started, g.loose-g.out.loose", "min(g.started, most), 0"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-key-unlocked",
		Fault: "A unique key is looked at without its lock.",
		Harm:  "Two jobs hold one key.",
		Patches: []Patch{
			{"sqlite", "TestLocksAreTakenInOneOrder", []Edit{
				{rows + "enqueue.go", "if err := s.lockKeys(rows); err != nil {", "if err := s.lockKeys(nil); err != nil {"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-queue-deleted",
		Fault: "An enqueue does not keep its queue from being deleted.",
		Harm:  "A job is left in a queue that is not there, and nobody claims it until upkeep finds it.",
		Patches: []Patch{
			{"sqlite", "TestAJobThatIsEnqueuedBesideADeletionHasItsQueue", []Edit{
				{rows + "concurrent.go", "s.concurrent() && !s.kept[name]", "s.concurrent() && s.kept[name]"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-deletion-early",
		Fault: "A queue is deleted without the turn for that.",
		Harm:  "A job that is enqueued just then is left in a queue that is not there.",
		Patches: []Patch{
			{"sqlite", "TestADeletionBesideAnEnqueueLeavesNoJobWithoutItsQueue", []Edit{
				{rows + "delete_queue.go", "s.turn(TurnQueue, name, false); err != nil || !got {", "true, error(nil); err != nil || !got {"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-counts-unread",
		Fault: "A sweep deletes all counts of minutes that statistics no longer show, not only those that it has added up.",
		Harm:  "What a transaction has counted just then is missing: statistics count fewer jobs than there are.",
		Patches: []Patch{
			{"sqlite", "TestCountsBesideASweepAreKept/fold_tally after 30m0s", []Edit{
				{rows + "sweep.go", "s.later(\"drop_folded\", list)\n", "s.later(\"drop_folded\", list)\n\ts.later(\"drop_tally\", first)\n"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-busy-lost",
		Fault: "A job whose row another transaction holds is taken for lost.",
		Harm:  "A worker gives up a job that it holds, and its outcome is never written.",
		Patches: []Patch{
			{"sqlite", "TestAnOutcomeThatCannotBeWrittenIsNotLost", []Edit{
				{rows + "locked.go", "held[l.ID] = ok && ", "held[l.ID] = false && ok && "},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-claim-forgotten",
		Fault: "A sweep takes a job that another transaction holds for one that runs no longer.",
		Harm:  "If that transaction is rolled back, the job runs for ever: its lease is never looked at again.",
		Patches: []Patch{
			{"sqlite", "TestASweepLooksAgainAtAJobThatIsHeld", []Edit{
				{rows + "sweep.go", "live := passedOver[c.Token]", "live := false && passedOver[c.Token]"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-ticks-together",
		Fault: "Schedules are changed while others take ticks.",
		Harm:  "A program that starts writes back the tick that another has just taken, and it comes twice.",
		Patches: []Patch{
			{"sqlite", "TestATickBesideAChangeOfItsScheduleComesOnce/SetSchedules", []Edit{
				{rows + "schedules.go", "error { return s.needTurn(TurnTicks, \"\", false) }", "error { return nil }"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-settings-lost",
		Fault: "A change of a queue's settings does not look whether others have changed them since it has read them.",
		Harm:  "Of two changes at once one is lost: a queue that was paused just then is not.",
		Patches: []Patch{
			{"sqlite", "TestAChangeOfAQueueThatIsOvertakenIsMadeAgain", []Edit{
				{"sql/set_queue.sql", "and version = ?1", "and ?1 is not null"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-limit-begun-before",
		Fault: "A claim under a limit counts no jobs that claims have taken which began before the limit was set.",
		Harm:  "More jobs run than the limit allows.",
		Patches: []Patch{
			{"sqlite", "TestAClaimThatBeganWithoutTheLimitCounts", []Edit{
				{rows + "claim.go", "s.countRunning(q.Name)", "0, error(nil)"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-held-missing",
		Fault: "A call takes a job that another transaction holds for one that is not there.",
		Harm:  "A cancel says that it has done all, and the job runs all the same.",
		Patches: []Patch{
			{"sqlite", "TestACallThatNeedsAHeldJobIsMadeAgain/cancel", []Edit{
				{rows + "locked.go", "err == nil && present > found", "err == nil && present < found"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-requeue-unlocked",
		Fault: "A requeue gives a job its unique key back that it has not locked, as the job had not ended then.",
		Harm:  "Two jobs hold one key.",
		Patches: []Patch{
			{"sqlite", "TestARequeueHoldsNoKeyWithoutItsLock", []Edit{
				{rows + "manage.go", "tx.keysLocked(jobs, keys)", "tx.keysLocked(nil, keys)"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-group-held-up",
		Fault: "A group one of whose jobs another transaction holds asks for its places to be given anew at once, again and again.",
		Harm:  "Claims pass over all jobs of the group for as long as a caller's transaction holds one of them.",
		Patches: []Patch{
			{"sqlite", "TestAJobThatIsHeldDoesNotHoldUpItsGroup", []Edit{
				{rows + "group.go", "s.ask(again, s.now()+micro(heldJobs))", "s.ask(again, 0)"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-repairs-together",
		Fault: "A repair goes on while another one does.",
		Harm:  "Both add what the counts lack: statistics count more jobs than there are.",
		Patches: []Patch{
			{"sqlite", "TestTwoRepairsCorrectCountsOnce", []Edit{
				{rows + "check.go", "tx.needTurn(TurnSweep, \"\", false)", "error(nil)"},
			}},
		},
		Untortured: onlyTests,
	},
	{
		Name:  "others-group-lost",
		Fault: "A change of a group's limit goes on while another transaction sets it.",
		Harm:  "Of two changes at once one is lost, though ChangeGroup promises to look again.",
		Patches: []Patch{
			{"sqlite", "TestAChangeOfAGroupThatIsOvertakenIsMadeAgain", []Edit{
				{rows + "rates.go", "return s.needTurn(TurnGroup, queue+\" \"+group, false)", "return nil"},
			}},
		},
		Untortured: onlyTests,
	},
}

const startsFirst = `	if between != nil {
		if err := between(s, q); err != nil {
			return nil, err
		}
		between = nil
	}
`
