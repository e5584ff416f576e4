package adopt

import "time"

// PassedAreDue has the next claim try all rows that are passed over.
func (s *Store) PassedAreDue() {
	s.passed.mu.Lock()
	defer s.passed.mu.Unlock()
	for _, r := range s.passed.rows {
		r.until = time.Now()
	}
}
