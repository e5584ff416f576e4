package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// evidenceFile holds the evidence of a run besides the processes' records: a line about the
// run, and a line for each job that is in the database at the end.
const evidenceFile = "evidence.jsonl"

// evidenceLine is the first line of the file.
type evidenceLine struct {
	About      About                     `json:"about"`
	Queues     []dibs.Queue              `json:"queues"` // settings at the start
	Groups     map[string]map[string]int `json:"groups"` // limits at the start, by queue and group
	Effects    map[int64]int             `json:"effects"`
	Check      []string                  `json:"check"`
	Slack      time.Duration             `json:"slack"`
	OrderSlack time.Duration             `json:"order_slack"`
	AtOnce     bool                      `json:"claims_at_once"`
	Records    map[string]int64          `json:"records"` // the size of each file of records
	Jobs       int                       `json:"jobs"`    // the number of lines that follow
}

// writeEvidence writes the evidence that is not in the records.
func writeEvidence(dir string, about About, e *history.Evidence) (err error) {
	file, err := os.Create(filepath.Join(dir, evidenceFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	out := json.NewEncoder(buffer)
	out.SetEscapeHTML(false) // payloads and results keep their bytes
	first := evidenceLine{about, e.Queues, e.Groups, e.Effects, e.Check, e.Slack, e.OrderSlack, e.ClaimsAtOnce, nil, len(e.Final)}
	if first.Records, err = recordSizes(dir); err != nil {
		return err
	}
	if err := out.Encode(first); err != nil {
		return err
	}
	for _, j := range e.Final {
		if err := out.Encode(j); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// recordSizes returns the size of each file of records in dir.
func recordSizes(dir string) (map[string]int64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+history.Suffix))
	sizes := make(map[string]int64, len(names))
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		sizes[filepath.Base(name)] = info.Size()
	}
	return sizes, err
}

// ErrNoEvidence says that a folder does not hold the complete evidence of a run.
var ErrNoEvidence = errors.New("no evidence of a run that came to its end")

// Judge judges again the run whose evidence is in dir.
func Judge(dir string) (*Result, error) {
	about, e, err := readEvidence(dir)
	if err != nil {
		return nil, err
	}
	if e.Calls, err = history.Read(dir); err != nil {
		return nil, err
	}
	return judgeEvidence(about, dir, e), nil
}

// readEvidence reads the file that writeEvidence wrote.
func readEvidence(dir string) (about About, e history.Evidence, err error) {
	file, err := os.Open(filepath.Join(dir, evidenceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return about, e, fmt.Errorf("%s holds %w", dir, ErrNoEvidence)
	} else if err != nil {
		return about, e, fmt.Errorf("%s holds %w: %w", dir, ErrNoEvidence, err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	in := json.NewDecoder(bufio.NewReader(file))
	var first evidenceLine
	err = in.Decode(&first)
	e = history.Evidence{
		Queues: first.Queues, Groups: first.Groups, Effects: first.Effects, Check: first.Check,
		Slack: first.Slack, OrderSlack: first.OrderSlack, ClaimsAtOnce: first.AtOnce,
	}
	for len(e.Final) < first.Jobs && err == nil {
		job := new(dibs.RawJob)
		err = in.Decode(job)
		e.Final = append(e.Final, job)
	}
	if err != nil {
		return about, e, fmt.Errorf("%s holds %w: %s: %w", dir, ErrNoEvidence, evidenceFile, err)
	}
	// Missing records would look like broken promises.
	present, err := recordSizes(dir)
	for _, name := range slices.Sorted(maps.Keys(first.Records)) {
		if err == nil && present[name] != first.Records[name] {
			err = fmt.Errorf("%s holds %w: %s has %d bytes, and had %d", dir, ErrNoEvidence, name, present[name], first.Records[name])
		}
	}
	return first.About, e, err
}
