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
	"github.com/dibs-queue/dibs/internal/history"
)

// EvidenceFile holds, beside the processes' records, all else that a run is judged
// from: a line about the run, and one for each job that it left.
const EvidenceFile = "evidence.jsonl"

// keptLine is the first line.
type keptLine struct {
	About      About                     `json:"about"`
	Queues     []dibs.Queue              `json:"queues"` // at the start
	Groups     map[string]map[string]int `json:"groups"` // limits at the start, by queue and group
	Effects    map[int64]int             `json:"effects"`
	Check      []string                  `json:"check"`
	Slack      time.Duration             `json:"slack"`
	OrderSlack time.Duration             `json:"order_slack"`
	Records    map[string]int64          `json:"records"` // size of each file of records
	Jobs       int                       `json:"jobs"`    // how many lines follow
}

// keep writes all of the evidence that is not in the records.
func keep(dir string, about About, e *history.Evidence) (err error) {
	file, err := os.Create(filepath.Join(dir, EvidenceFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	out := json.NewEncoder(buffer)
	out.SetEscapeHTML(false) // payloads and results keep their bytes
	first := keptLine{about, e.Queues, e.Groups, e.Effects, e.Check, e.Slack, e.OrderSlack, nil, len(e.Final)}
	if first.Records, err = records(dir); err != nil {
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

// records are the files of records in dir, and their sizes.
func records(dir string) (map[string]int64, error) {
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

// ErrNoEvidence: a folder does not hold what a run is judged from.
var ErrNoEvidence = errors.New("no evidence of a run that came to its end")

// Judge judges once more the run whose evidence was kept in dir.
func Judge(dir string) (*Result, error) {
	about, e, err := kept(dir)
	if err != nil {
		return nil, err
	}
	if e.Calls, err = history.Read(dir); err != nil {
		return nil, err
	}
	return judged(about, dir, e), nil
}

// kept reads what keep wrote.
func kept(dir string) (about About, e history.Evidence, err error) {
	file, err := os.Open(filepath.Join(dir, EvidenceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return about, e, fmt.Errorf("%s holds %w", dir, ErrNoEvidence)
	} else if err != nil {
		return about, e, fmt.Errorf("%s holds %w: %w", dir, ErrNoEvidence, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	in := json.NewDecoder(bufio.NewReader(file))
	var first keptLine
	err = in.Decode(&first)
	e = history.Evidence{
		Queues: first.Queues, Groups: first.Groups, Effects: first.Effects, Check: first.Check,
		Slack: first.Slack, OrderSlack: first.OrderSlack,
	}
	for len(e.Final) < first.Jobs && err == nil {
		job := new(dibs.RawJob)
		err = in.Decode(job)
		e.Final = append(e.Final, job)
	}
	if err != nil {
		return about, e, fmt.Errorf("%s holds %w: %s: %w", dir, ErrNoEvidence, EvidenceFile, err)
	}
	// Without some of the records, what they tell of would look like a broken promise.
	now, err := records(dir)
	for _, name := range slices.Sorted(maps.Keys(first.Records)) {
		if err == nil && now[name] != first.Records[name] {
			err = fmt.Errorf("%s holds %w: %s has %d bytes, and had %d", dir, ErrNoEvidence, name, now[name], first.Records[name])
		}
	}
	return first.About, e, err
}
