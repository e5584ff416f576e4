package adopt

import "github.com/dibs-queue/dibs"

// TokensLast reports whether a token is good until its claim ends. It is not where a
// lease is extended by moving the started-at column, and that is part of the fence:
// then only the store that made the claim can extend or, once it has done so, finish it.
func (s *Store) TokensLast() bool {
	return s.plan.SideTable || s.plan.Timeout != nil || s.plan.Started == nil || s.plan.Claim.Token != ""
}

// extendable refuses to extend claims of other stores where that would change their tokens.
func (s *Store) extendable(leases []dibs.Lease, claims []*claim) error {
	if s.TokensLast() {
		return nil
	}
	for i, l := range leases {
		if claims[i] != nil && s.held.get(l) == nil {
			return s.cannot("extend", "has only started_at to hold leases, so only who made a claim can extend it: name a token or a timeout column, or set side_table")
		}
	}
	return nil
}
