package sqlserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// A turn is a lock of the application's, and a unique key is the lock of a row of dibs_key. Rows that do not exist yet are made
// beside the transaction, at once for all: in it, others would wait for its end.

// turn takes a turn until the transaction ends.
func (s *Store) turn(tx *rowstore.Session, turn rowstore.Turn, queue string, shared bool) (got bool, err error) {
	mode := "Exclusive"
	if shared {
		mode = "Shared"
	}
	_, err = tx.One("turn", []any{s.resource(string(turn), queue), mode}, &got)
	return got, err
}

// resource is the name of an application's lock in the database. The server cuts long names off.
func (s *Store) resource(turn, queue string) string {
	sum := sha256.Sum256([]byte(queue))
	return s.sql.prefix + turn + " " + hex.EncodeToString(sum[:])
}

// lockKeys locks unique keys until the transaction ends. It never waits, though it may: a wait that takes too long would end the
// transaction.
func (s *Store) lockKeys(tx *rowstore.Session, keys []rowstore.UniqueKey, _ bool) (got bool, err error) {
	pairs := make([][2]string, len(keys))
	for i, k := range keys {
		pairs[i] = [2]string{k.Queue, k.Key}
	}
	list, err := json.Marshal(pairs)
	if err != nil {
		return false, err
	}
	for range 2 {
		var locked, known int
		if _, err := tx.One("lock_keys", []any{string(list)}, &locked, &known); err != nil || locked == len(keys) || known == len(keys) {
			return locked == len(keys), err
		}
		if _, err := (conn{s.side, true}).ExecContext(context.Background(), s.sql.Statements.Get("put_keys"), string(list)); err != nil {
			return false, err
		}
	}
	return false, nil
}
