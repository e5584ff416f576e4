package dibs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// InGroup puts the job into a group. It and the functions below make options of [Kind.New] and
// [Kind.Enqueue]; a function of your own that sets other fields of a NewJob is one too.
func InGroup(name string) func(*NewJob) { return func(j *NewJob) { j.Group = name } }

// UniqueKey gives the job a unique key.
func UniqueKey(key string) func(*NewJob) { return func(j *NewJob) { j.UniqueKey = key } }

// UniqueByPayload makes the job unique by its kind and payload: it is an option as it stands. Its unique
// key has a hash of both, which is the same for JSON that differs only in the order of fields and in blanks. Of a
// field that is there twice only the last counts, and all halves of surrogate pairs are the same.
func UniqueByPayload(j *NewJob) {
	raw, ok := j.Payload.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(j.Payload); err != nil {
			return // Enqueue refuses the payload
		}
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a float64 would make one of two large numbers
	if err := d.Decode(&value); err == nil {
		if sorted, err := json.Marshal(value); err == nil {
			raw = sorted
		}
	}
	sum := sha256.Sum256(raw)
	j.UniqueKey = j.Kind + " " + hex.EncodeToString(sum[:])
}

// Priority is the job's priority: 0 to MaxPriority, small first.
func Priority(n int) func(*NewJob) { return func(j *NewJob) { j.Priority = &n } }

// Delay has the job start at the earliest this long from now, on the database's clock.
func Delay(d time.Duration) func(*NewJob) { return func(j *NewJob) { j.Delay = d } }
