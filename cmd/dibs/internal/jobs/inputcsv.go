package jobs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/wire"
)

// csvFields are the columns that set a field of the job, by their names in the
// header. All other columns form the payload.
var csvFields = map[string]func(*dibs.NewJob, string) error{
	"@queue":        func(j *dibs.NewJob, s string) error { j.Queue = s; return nil },
	"@kind":         func(j *dibs.NewJob, s string) error { j.Kind = s; return nil },
	"@group":        func(j *dibs.NewJob, s string) error { j.Group = s; return nil },
	"@unique_key":   func(j *dibs.NewJob, s string) error { j.UniqueKey = s; return nil },
	"@unique_until": func(j *dibs.NewJob, s string) error { j.UniqueUntil = dibs.UniqueUntil(s); return nil },
	"@if_held":      func(j *dibs.NewJob, s string) error { j.IfHeld = dibs.IfHeld(s); return nil },
	"@unique_window": func(j *dibs.NewJob, s string) error {
		j.UniqueFor, j.UniqueWindow = 0, s
		return nil
	},
	"@unique_for": func(j *dibs.NewJob, s string) (err error) {
		j.UniqueFor, err = wire.ParseDuration(s)
		j.UniqueWindow = ""
		return err
	},
	"@delay_limit": func(j *dibs.NewJob, s string) (err error) {
		j.DelayLimit, err = wire.ParseDuration(s)
		return err
	},
	"@metadata": func(j *dibs.NewJob, s string) error { j.Metadata = json.RawMessage(s); return nil },
	"@priority": func(j *dibs.NewJob, s string) error {
		n, err := strconv.Atoi(s)
		j.Priority = &n
		return err
	},
	"@max_attempts": func(j *dibs.NewJob, s string) (err error) {
		j.MaxAttempts, err = strconv.Atoi(s)
		return err
	},
	"@delay": func(j *dibs.NewJob, s string) (err error) {
		j.Delay, err = wire.ParseDuration(s)
		j.RunAt = time.Time{}
		return err
	},
	"@run_at": func(j *dibs.NewJob, s string) (err error) {
		j.RunAt, err = cmdline.ParseTime(s)
		j.Delay = 0
		return err
	},
}

// readCSV reads every row after the header as a record. Its payload is an object of
// strings, in the order of the columns.
func readCSV(in *cmdline.Input, base dibs.NewJob) (records, error) {
	if bom, err := in.Peek(3); err == nil && string(bom) == "\ufeff" {
		if _, err := in.Discard(3); err != nil {
			return nil, err
		}
	}
	r := csv.NewReader(in.Reader)
	r.ReuseRecord = true
	in.Budget.Remaining = cmdline.MaxRecord
	row, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty; CSV begins with a row of column names")
	}
	if err != nil {
		return nil, csvError(err)
	}
	header := slices.Clone(row)
	if err := checkHeader(header); err != nil {
		return nil, err
	}
	return func() (record, error) {
		in.Budget.Remaining = cmdline.MaxRecord
		row, err := r.Read()
		var broken *csv.ParseError
		switch {
		case errors.As(err, &broken):
			return record{line: broken.StartLine, err: csvError(err)}, nil
		case err != nil:
			return record{}, err
		}
		line, _ := r.FieldPos(0)
		job, err := csvJob(header, row, base)
		return record{line: line, job: job, err: err}, nil
	}, nil
}

// csvError explains an error of a row by its columns or lines. The caller adds the row's
// first line.
func csvError(err error) error {
	var broken *csv.ParseError
	if !errors.As(err, &broken) {
		return err
	}
	what := strings.TrimPrefix(broken.Err.Error(), "csv: ")
	switch {
	case errors.Is(broken.Err, csv.ErrFieldCount):
		return errors.New("the row has not as many fields as the header")
	case broken.Line != broken.StartLine:
		return fmt.Errorf("broken CSV up to line %d: %s", broken.Line, what)
	}
	return fmt.Errorf("broken CSV in column %d: %s", broken.Column, what)
}

func checkHeader(header []string) error {
	seen := make(map[string]bool, len(header))
	for i, name := range header {
		switch {
		case name == "":
			return fmt.Errorf("column %d of the header has no name", i+1)
		case !utf8.ValidString(name):
			return fmt.Errorf("column %d of the header is not valid UTF-8", i+1)
		case seen[name]:
			return fmt.Errorf("the header has two columns %q", name)
		case name[0] == '@' && csvFields[name] == nil:
			return fmt.Errorf("the header has a column %q; names with @ are @queue, @kind, @priority, @delay, @run_at, @group, @unique_key, @unique_until, @unique_for, @unique_window, @if_held, @delay_limit, @max_attempts and @metadata", name)
		}
		seen[name] = true
	}
	return nil
}

func csvJob(header, row []string, job dibs.NewJob) (dibs.NewJob, error) {
	var payload bytes.Buffer
	payload.WriteByte('{')
	for i, name := range header {
		value := row[i]
		if set := csvFields[name]; set != nil {
			if value == "" {
				continue
			}
			if err := set(&job, value); err != nil {
				return job, &dibs.InvalidError{Field: name, Reason: fieldReason(err, value)}
			}
			continue
		}
		if !utf8.ValidString(value) {
			return job, &dibs.InvalidError{Field: name, Reason: "is not valid UTF-8"}
		}
		if payload.Len() > 1 {
			payload.WriteByte(',')
		}
		payload.Write(wire.Encode(name))
		payload.WriteByte(':')
		payload.Write(wire.Encode(value))
	}
	payload.WriteByte('}')
	job.Payload = json.RawMessage(payload.Bytes())
	return job, nil
}

// fieldReason puts an error of strconv into words.
func fieldReason(err error, value string) string {
	if errors.As(err, new(*strconv.NumError)) {
		return fmt.Sprintf("must be a whole number, got %.40q", value)
	}
	return err.Error()
}
