package history

import "strings"

// span says when a call acted and when others saw its effect: for a call in a transaction,
// from the commit on.
type span struct {
	lo, hi     int64 // the earliest and latest time at which it acted; hi is never without an answer
	seenLo     int64 // the earliest time at which others saw its effect
	seenHi     int64 // the time from which all saw its effect; never if that is uncertain
	openUntil  int64 // the time up to which its transaction was certainly open
	unlockedBy int64 // the time by which its locks were certainly released
	fate       Fate  // Nothing also if its transaction was rolled back
}

// txEnd is the end of a transaction.
type txEnd struct {
	call       *Call // the commit or rollback; nil: neither began, so nothing was committed
	lastAnswer int64 // when the last call before the end was answered
}

// spansOf finds the span of every call, and the call that ended each transaction. For the
// time grace, a server may go on with the statements of a client that was killed or cut off.
func spansOf(calls []*Call, grace int64) ([]span, map[string]*Call) {
	txs := make(map[string]*txEnd)
	goneAfter := make(map[string]int64)
	for _, c := range calls {
		if c.Verb == Fault && strings.HasPrefix(c.Text, "kill") && !c.End.IsZero() {
			goneAfter[c.Worker] = micros(c.End) + grace
		}
		if c.Tx == "" {
			continue
		}
		t := txs[c.Tx]
		if t == nil {
			t = &txEnd{}
			txs[c.Tx] = t
		}
		switch {
		case c.Verb == Commit || c.Verb == Rollback:
			t.call = c
		case c.Fate == Done:
			t.lastAnswer = max(t.lastAnswer, micros(c.End))
		}
	}
	spans := make([]span, len(calls))
	for i, c := range calls {
		goneAt := goneAfter[c.Client]
		if goneAt == 0 {
			goneAt = never
		}
		spans[i] = spanOf(c, goneAt, grace)
		if c.Tx != "" && c.Verb != Commit && c.Verb != Rollback {
			spans[i].applyTx(txs[c.Tx], goneAt, grace)
		}
	}
	ends := make(map[string]*Call, len(txs))
	for name, t := range txs {
		if t.call != nil {
			ends[name] = t.call
		}
	}
	return spans, ends
}

func spanOf(c *Call, gone, grace int64) span {
	begin, end := micros(c.Begin), micros(c.End)
	s := span{lo: begin, hi: end, seenLo: begin, seenHi: end, unlockedBy: end, fate: c.Fate}
	if c.Fate == Unknown {
		s.hi, s.seenHi, s.unlockedBy = never, never, gone
		if end != 0 {
			s.unlockedBy = end + grace
		}
	}
	return s
}

// applyTx adapts the span of a call to the end of its transaction.
func (s *span) applyTx(t *txEnd, gone, grace int64) {
	s.openUntil = max(t.lastAnswer, s.lo)
	switch {
	case t.call == nil:
		s.fate, s.unlockedBy = Nothing, gone
		return
	case t.call.End.IsZero():
		s.unlockedBy = gone
	case t.call.Verb == Rollback && t.call.Error != "": // the connection was lost; the server may go on with a statement
		s.unlockedBy = micros(t.call.End) + grace
	default:
		s.unlockedBy = micros(t.call.End)
	}
	switch {
	case t.call.Verb == Rollback:
		s.fate = Nothing
	case s.fate == Nothing:
	case t.call.Fate == Done:
		s.seenLo = micros(t.call.Begin)
		if s.fate == Done {
			s.seenHi = micros(t.call.End)
		}
	default:
		s.seenLo, s.seenHi, s.unlockedBy = micros(t.call.Begin), never, never
		s.fate = Unknown
	}
}
