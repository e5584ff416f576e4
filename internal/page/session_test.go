package page

import "testing"

// Logging in again and again ends only sessions of the same token, the oldest ones.
func TestSessionsOfOneTokenEndNoOthers(t *testing.T) {
	var s sessions
	of := func(name string) func() (Viewer, bool) {
		return func() (Viewer, bool) { return Viewer{Name: name}, true }
	}
	other := s.add(of("other"))
	var ids []string
	for range maxSessions + 1 {
		ids = append(ids, s.add(of("greedy")))
	}
	if who, known := s.find(other); !known || who.Name != "other" {
		t.Errorf("the other's session: %+v, %v", who, known)
	}
	for i, id := range ids {
		if _, known := s.find(id); known != (i >= len(ids)-maxOfToken) {
			t.Errorf("session %d of %d: %v", i+1, len(ids), known)
		}
	}
}

// A session ends with its token, and a token that comes back does not bring it back.
func TestSessionsEndWithTheirTokens(t *testing.T) {
	var s sessions
	there := true
	id := s.add(func() (Viewer, bool) { return Viewer{Name: "ann"}, there })
	for _, step := range []struct{ there, known bool }{{true, true}, {false, false}, {true, false}} {
		there = step.there
		if _, known := s.find(id); known != step.known {
			t.Errorf("with the token there (%v) the session is known: %v", step.there, known)
		}
	}
}
