package mysql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// A turn is the lock of a row of dibs_turn, and so is a unique key of one of dibs_key. Rows that do not exist yet are made
// beside the transaction, at once for all: in it, others would wait for its end.

// turn takes a turn until the transaction ends.
func (s *Store) turn(n *node, tx *rowstore.Session, turn rowstore.Turn, queue string, shared bool) (got bool, err error) {
	if len(queue) > 255 { // a group's turn has the names of the queue and of the group
		sum := sha256.Sum256([]byte(queue))
		queue = "sha256 " + hex.EncodeToString(sum[:])
	}
	statement := "take_turn"
	switch {
	case s.cluster && shared && turn == rowstore.TurnClaim:
		return s.takeSlot(n, tx, queue)
	case shared:
		statement = "share_turn"
	case s.cluster:
		statement = "write_turn"
	}
	for range 2 {
		var known bool
		if _, err := tx.One(statement, []any{string(turn), queue}, &got, &known); err != nil || got || known {
			return got, err
		}
		if err := s.make(n, "put_turn", string(turn), queue); err != nil {
			return false, err
		}
	}
	return false, nil
}

// lockKeys locks unique keys until the transaction ends. Few calls wait for them at a time, so those of the pool's connections
// that others need stay free.
func (s *Store) lockKeys(n *node, tx *rowstore.Session, keys []rowstore.UniqueKey, mayWait bool) (got bool, err error) {
	pairs := make([][2]string, len(keys))
	for i, k := range keys {
		pairs[i] = [2]string{k.Queue, k.Key}
	}
	list, err := json.Marshal(pairs)
	if err != nil {
		return false, err
	}
	statement := "lock_keys"
	if mayWait {
		select {
		case s.waiting <- struct{}{}:
			defer func() { <-s.waiting }()
			statement = "wait_keys"
		default:
		}
	}
	for range 2 {
		var locked, known int
		_, err := tx.One(statement, []any{string(list)}, &locked, &known)
		if waitedTooLong(err) {
			return false, nil
		}
		if err != nil || locked == len(keys) || known == len(keys) {
			return locked == len(keys), err
		}
		statement = "lock_keys" // waiting for a key that is made now could be out of their order
		if err := s.make(n, "put_keys", string(list)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// make inserts rows that are missing. If another transaction has made and locked one meanwhile, that is as good. Calls of this
// store make them one after the other: a row that another is just making could not be shared yet, and the claim would
// find nothing.
func (s *Store) make(n *node, statement string, args ...any) error {
	s.making.Lock()
	defer s.making.Unlock()
	_, err := conn{n.side, s.joined()}.ExecContext(context.Background(), s.sql.Statements.Get(statement), args...)
	if waitedTooLong(err) || repeatable(err) {
		return nil
	}
	return err
}
