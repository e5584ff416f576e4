package history

import "strings"

// span is when a call acted, and what came of it. For a call in a transaction,
// others see its effect from the commit on.
type span struct {
	lo, hi int64 // it acted within; hi is never for a call whose answer is unknown
	seen   int64 // nobody saw its effect before
	shown  int64 // everybody saw it from here on; never if it is not certain
	held   int64 // the transaction was certainly open until then
	until  int64 // what it had locked was certainly free again
	fate   Fate  // with the transaction's: a call that was rolled back did Nothing
}

// ending is how a transaction ended.
type ending struct {
	call *Call // the commit or rollback; nil: none was begun, so it was never committed
	held int64 // when its last call was answered
}

// spansOf finds the span of every call, and the call that ended each transaction.
// Grace is how long a server may go on with the statements of a client that is gone.
func spansOf(calls []*Call, grace int64) ([]span, map[string]*Call) {
	txs := make(map[string]*ending)
	gone := make(map[string]int64)
	for _, c := range calls {
		if c.Verb == Fault && strings.HasPrefix(c.Text, "kill") && !c.End.IsZero() {
			gone[c.Worker] = micros(c.End) + grace
		}
		if c.Tx == "" {
			continue
		}
		t := txs[c.Tx]
		if t == nil {
			t = &ending{}
			txs[c.Tx] = t
		}
		switch {
		case c.Verb == Commit || c.Verb == Rollback:
			t.call = c
		case c.Fate == Done:
			t.held = max(t.held, micros(c.End))
		}
	}
	spans := make([]span, len(calls))
	for i, c := range calls {
		left := gone[c.Client]
		if left == 0 {
			left = never
		}
		spans[i] = spanOf(c, left, grace)
		if c.Tx != "" && c.Verb != Commit && c.Verb != Rollback {
			spans[i].within(txs[c.Tx], left)
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
	s := span{lo: begin, hi: end, seen: begin, shown: end, until: end, fate: c.Fate}
	if c.Fate == Unknown {
		s.hi, s.shown, s.until = never, never, gone
		if end != 0 {
			s.until = end + grace
		}
	}
	return s
}

// within takes the transaction's end into account.
func (s *span) within(t *ending, gone int64) {
	s.held = max(t.held, s.lo)
	switch {
	case t.call == nil:
		s.fate, s.until = Nothing, gone
		return
	case t.call.End.IsZero():
		s.until = gone
	default:
		s.until = micros(t.call.End)
	}
	switch {
	case t.call.Verb == Rollback:
		s.fate = Nothing
	case s.fate == Nothing:
	case t.call.Fate == Done:
		s.seen = micros(t.call.Begin)
		if s.fate == Done {
			s.shown = micros(t.call.End)
		}
	default:
		s.seen, s.shown, s.until = micros(t.call.Begin), never, never
		s.fate = Unknown
	}
}
