package broken

// Faults of durable steps.
var stepVariants = []Variant{
	{
		Name:  "step-any-token",
		Fault: "A step is written without a look at the token.",
		Harm:  "A worker that lost its job long ago says what is done in the attempt of the new owner.",
		Patches: []Patch{
			{"postgres", "TestStore/steps/a lease that is lost neither reads nor writes a step", []Edit{
				{"sql/put_step.sql", " and j.token = $2::uuid and (j.lease_until > statement_timestamp() or j.token = any ($3::uuid[]))", " and ($2::uuid is not null or $3::uuid[] is null)"},
			}},
			{"sqlite", "TestStore/steps/a lease that is lost neither reads nor writes a step", []Edit{
				{rows + "steps.go", "j == nil || j.token != l.Token || j.leaseUntil <= now && !s.ownTokens[l.Token]", "j == nil || now < 0"},
			}},
		},
		Untortured: "its jobs have no steps",
	},
	{
		Name:  "step-after-the-end",
		Fault: "A step is written though the lease has ended, until the sweep takes the job away.",
		Harm:  "Whether a late worker's step counts depends on chance, though its lease has ended.",
		Patches: []Patch{
			{"postgres", "TestStore/steps/a lease that is lost neither reads nor writes a step", []Edit{
				{"sql/put_step.sql", "j.lease_until > statement_timestamp() or", "true or"},
			}},
			{"sqlite", "TestStore/steps/a lease that is lost neither reads nor writes a step", []Edit{
				{rows + "steps.go", "j.leaseUntil <= now &&", "now < 0 &&"},
			}},
		},
		Untortured: "its jobs have no steps",
	},
	{
		Name:  "steps-not-read",
		Fault: "An attempt does not read what earlier ones have done.",
		Harm:  "Each attempt does all steps again: the card is charged twice.",
		Patches: []Patch{
			{"postgres", "TestStore/steps/a worker does each step once, whatever its attempts end with", []Edit{
				{"../step.go", "read: j.Attempt == 1", "read: true"},
			}},
			{"sqlite", "TestStore/steps/a worker does each step once, whatever its attempts end with", []Edit{
				{"../step.go", "read: j.Attempt == 1", "read: true"},
			}},
		},
		Untortured: "its jobs have no steps",
	},
}
