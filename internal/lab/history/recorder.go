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

// Suffix ends the names of a history's files.
const Suffix = ".history"

// Recorder appends the calls of one client and their answers to a file: one line when a call
// begins and one when it ends. Each is a single write, so a process that is killed loses
// no line that it has written. Many goroutines may use a Recorder.
type Recorder struct {
	client string

	mu     sync.Mutex
	file   *os.File
	number int
	txs    int
	err    error // the first error of writing a line
}

// newRecorder creates a client's file. Clients have unique names in a history, so the file must
// not exist.
func newRecorder(path, client string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	r := &Recorder{client: client, file: file}
	if err := r.write(&line{Client: client}); err != nil {
		_ = file.Close() // the error of the write says more
		return nil, err
	}
	return r, nil
}

// OpenIn creates the client's file in dir, under the client's name.
func OpenIn(dir, client string) (*Recorder, error) {
	return newRecorder(filepath.Join(dir, client+Suffix), client)
}

// Begin numbers the call, notes the time and writes its arguments. If that fails, the
// caller must not make the call, since nobody could judge its effect.
func (r *Recorder) Begin(c *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	c.Client, c.Number, c.Fate = r.client, r.number, Unknown
	c.Begin = time.Now()
	return r.write(beginLine(c))
}

// End notes the time and writes the call's fate and answer. If that fails, the call counts
// as one without an answer, which is safe; Close returns the error.
func (r *Recorder) End(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.End = time.Now()
	_ = r.write(endLine(c)) // Close returns the error
}

// Fault records what do does to the client about, or to the server if about is empty, from
// its beginning to its end.
func (r *Recorder) Fault(about, text string, do func() error) error {
	return r.record(&Call{Verb: Fault, Worker: about, Text: text}, func(*Call) error { return do() })
}

// Ended records that another program tries to end a row of an adopted table, and whether
// it did.
func (r *Recorder) Ended(row int64, end func() (bool, error)) error {
	return r.record(&Call{Verb: Ended, IDs: []int64{row}}, func(c *Call) error {
		did, err := end()
		if did {
			c.Changed = c.IDs
		}
		return err
	})
}

// NewTx returns a name for a transaction of the client.
func (r *Recorder) NewTx() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txs++
	return r.client + "/" + strconv.Itoa(r.txs)
}

// Close closes the file and returns the first error of writing to it.
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
