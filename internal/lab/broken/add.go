package broken

// noAdds says why the torture finds no fault of jobs that an attempt adds.
const noAdds = "its attempts add no jobs"

// Faults of jobs that are added by the end of an attempt.
var addVariants = []Variant{
	{
		Name:  "add-refused-adds",
		Fault: "What an outcome adds is enqueued although the outcome was refused.",
		Harm:  "A worker that lost its job adds the same jobs as the job's next owner: they run twice.",
		Patches: []Patch{
			{"postgres", "TestStore/add/a refused outcome adds nothing, and the others of the call add theirs", []Edit{
				{"add.go", "func(id int64) bool { return !lost[id] }", "func(id int64) bool { return !lost[id] || true }"},
			}},
			{"sqlite", "TestStore/add/a refused outcome adds nothing, and the others of the call add theirs", []Edit{
				{rows + "finish.go", "\t\t\tr.lost = append(r.lost, o.ID)\n", "\t\t\tr.lost = append(r.lost, o.ID)\n\t\t\tadding[o.ID] = len(o.Add) > 0\n"},
			}},
		},
		Untortured: noAdds,
	},
	{
		Name:  "add-outside",
		Fault: "What an outcome in the caller's transaction adds is enqueued through the pool.",
		Harm:  "The added jobs run although the transaction was rolled back, and again after the job's next attempt.",
		Patches: []Patch{
			{"postgres", "TestStore/tx add/what an attempt adds in a transaction is there if and only if that commits", []Edit{
				{"add.go", "s.enqueueRows(ctx, added.Rows, f.conn, true)", "s.enqueueRows(ctx, added.Rows, s.db, true)"},
			}},
		},
		Untortured: noAdds,
	},
	{
		Name:  "add-unfollowed",
		Fault: "What follows a job does not follow what the job's end adds.",
		Harm:  "The last step of a flow starts while jobs that it needs still run.",
		Patches: []Patch{
			{"postgres", "TestStore/add/what follows a job follows what it adds, through more than one step", []Edit{
				{"sql/inherit.sql", "    from left_edges e\n", "    from left_edges e\n    where e.id < 0\n"},
			}},
			{"sqlite", "TestStore/add/what follows a job follows what it adds, through more than one step", []Edit{
				{"sql/inherit.sql", "where e.need <> 'failed'", "where e.need = 'failed'"},
			}},
		},
		Untortured: noAdds,
	},
}
