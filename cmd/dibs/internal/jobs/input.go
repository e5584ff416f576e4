package jobs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// record is one line of input, or one row of CSV: a job, or the error that it is
// invalid.
type record struct {
	line int // number of its first line, from 1
	job  dibs.NewJob
	err  error
}

// records returns the next record, and io.EOF after the last. After another error the rest
// cannot be read.
type records func() (record, error)

// format names a file format for many jobs.
type format string

const (
	formatLines format = "lines"
	formatJSONL format = "jsonl"
	formatJobs  format = "jobs"
	formatCSV   format = "csv"
)

// formatOf returns the format that a file's name implies, or "".
func formatOf(path string) format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		return formatCSV
	case ".jsonl", ".ndjson":
		return formatJSONL
	}
	return ""
}

// read starts reading records. base supplies the fields that a record does not set.
func (f format) read(in *cmdline.Input, base dibs.NewJob) (records, error) {
	r := in.Reader
	switch f {
	case formatCSV:
		return readCSV(in, base)
	case formatJobs:
		return readLines(r, func(line []byte) (dibs.NewJob, error) { return wire.ReadJob(line, base) }), nil
	case formatJSONL:
		return readLines(r, func(line []byte) (dibs.NewJob, error) {
			job := base
			job.Payload = json.RawMessage(bytes.TrimSpace(line))
			return job, nil
		}), nil
	}
	return readLines(r, func(line []byte) (dibs.NewJob, error) {
		job := base
		var err error
		job.Payload, err = jsonString(line)
		return job, err
	}), nil
}

// readLines reads every line that is not blank as a record.
func readLines(r *bufio.Reader, parse func([]byte) (dibs.NewJob, error)) records {
	at := 0
	return func() (record, error) {
		for {
			line, err := cmdline.ReadLine(r)
			at++
			switch {
			case errors.Is(err, cmdline.ErrTooLong):
				return record{line: at, err: err}, nil
			case err != nil:
				return record{}, err
			case len(bytes.TrimSpace(line)) == 0:
				continue
			}
			if at == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			job, err := parse(line)
			return record{line: at, job: job, err: err}, nil
		}
	}
}

// jsonString formats text as a JSON string.
func jsonString(text []byte) (json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, &dibs.InvalidError{Field: "payload", Reason: "is not valid UTF-8"}
	}
	return wire.Encode(string(text)), nil
}

// validate checks a job as the store will, so that dibs finds a mistake on the last line
// before it enqueues the first. limits are the queues' payload limits.
func validate(job dibs.NewJob, limits map[string]int) error {
	for _, d := range job.After {
		if d.Ref != "" && d.Ref == job.Ref { // earlier jobs may have it too; see refs.check
			job.Ref = ""
		}
	}
	_, err := checks.Jobs([]dibs.NewJob{job}, func(queue string) (int, error) {
		if limit, ok := limits[queue]; ok {
			return limit, nil
		}
		return dibs.MaxPayload, nil
	})
	if _, rule, ok := wire.InvalidJob(err); ok {
		return rule
	}
	return err
}
