package adopt

// TokensLast reports whether a token stays valid until its claim ends. It does not if a lease is
// extended by writing started_at, and this column is part of the fence: then only the store that
// made a claim can extend it, and also finish it after that.
func (s *Store) TokensLast() bool {
	return s.plan.SideTable || s.plan.Timeout != nil || s.plan.Started == nil || s.plan.Claim.Token != ""
}

// extendable refuses to extend claims of other stores if that would change their tokens.
func (s *Store) extendable(claims []*claim) error {
	if s.TokensLast() {
		return nil
	}
	for _, c := range claims {
		if c != nil && c.read {
			return s.cannot("extend", "holds leases only in started_at, so only who made a claim can extend it: name a token or a timeout column, or set side_table")
		}
	}
	return nil
}
