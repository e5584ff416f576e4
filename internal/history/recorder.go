package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Suffix is how the files of a history end.
const Suffix = ".history"

// Recorder appends what one client asks and is told to a file, one line when a call
// begins and one when it ends, each in one write: a process that is killed loses
// nothing that it had written. It may be used by many goroutines.
type Recorder struct {
	client string

	mu     sync.Mutex
	file   *os.File
	number int
	txs    int
	err    error // why the first line could not be written
}

// Open makes the file of a client. The name of a client is unique in a history, so
// the file must not exist.
func Open(path, client string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	r := &Recorder{client: client, file: file}
	if err := r.write(&line{Client: client}); err != nil {
		_ = file.Close() // the first error says more
		return nil, err
	}
	return r, nil
}

// OpenIn is Open of the file in dir that belongs to the client.
func OpenIn(dir, client string) (*Recorder, error) {
	return Open(filepath.Join(dir, client+Suffix), client)
}

// Begin numbers the call, notes the time and writes its arguments. If they cannot be
// written, the call must not be made: nobody could judge what it did.
func (r *Recorder) Begin(c *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	c.Client, c.Number, c.Fate = r.client, r.number, Unknown
	c.Begin = time.Now()
	return r.write(asked(c))
}

// End notes the time and writes the call's fate and answer. A line that cannot be
// written leaves the call as one without an answer, which is safe; Close tells.
func (r *Recorder) End(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.End = time.Now()
	_ = r.write(told(c)) // kept for Close
}

// Fault records what is done to a client (about), or to the server (about is empty),
// from its beginning to its end.
func (r *Recorder) Fault(about, text string, do func() error) error {
	return r.record(&Call{Verb: Fault, Worker: about, Text: text}, func(*Call) error { return do() })
}

// Ended records that a program which does not use dibs ends a row of an adopted table, and
// whether it did.
func (r *Recorder) Ended(row int64, end func() (bool, error)) error {
	return r.record(&Call{Verb: Ended, IDs: []int64{row}}, func(c *Call) error {
		did, err := end()
		if did {
			c.Changed = c.IDs
		}
		return err
	})
}

// NewTx names a transaction of the client.
func (r *Recorder) NewTx() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txs++
	return r.client + "/" + strconv.Itoa(r.txs)
}

// Close closes the file, and returns the first error of writing to it.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil && err != nil {
		r.err = fmt.Errorf("history: %w", err)
	}
	return r.err
}

func (r *Recorder) write(l *line) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("history: write a record: %w", err)
	if r.err == nil {
		r.err = err
	}
	return err
}
