package adopt_test

import "github.com/dibs-queue/dibs/internal/lab/adopttest"

var (
	onEach, exec       = adopttest.OnEach, adopttest.Exec
	orders, changed    = adopttest.Orders, adopttest.Changed
	open, claim        = adopttest.Open, adopttest.Claim
	refuses            = adopttest.Refuses
	findings, proposed = adopttest.Findings, adopttest.Proposed
	found, listing     = adopttest.Found, adopttest.Listing
)
