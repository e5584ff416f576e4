package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
)

// The protocol of 'dibs work --lines'; docs/lines.md describes it to those who write workers.

const (
	// linesVersion is the protocol's version, which a process finds in DIBS_LINES.
	linesVersion = "1"
	// maxAnswer is how many bytes a line with an answer may have. A result that is too long is
	// named as such up to here.
	maxAnswer = 4 << 20
	// MaxLog is how many bytes of a line of a log are shown.
	MaxLog = 16 << 10
	// maxExactID is the largest id that JavaScript, and others whose numbers are float64, can hold.
	maxExactID = 1<<53 - 1
)

// jobLine is a job as a process gets it. The id comes first, then the token, and the payload last,
// so that a shell can cut them out. The token differs each time that the job is claimed; the number
// of the attempt may not, in adopted tables.
type jobLine struct {
	ID          lineID          `json:"id"`
	Token       dibs.Token      `json:"token"`
	Key         string          `json:"key,omitempty"`
	Queue       string          `json:"queue"`
	Kind        string          `json:"kind"`
	Attempt     int             `json:"attempt"`
	Excused     int             `json:"excused,omitempty"`
	MaxAttempts int             `json:"max_attempts"`
	Group       string          `json:"group,omitempty"`
	Schedule    string          `json:"schedule,omitempty"`
	Tick        time.Time       `json:"tick,omitzero"`
	Flow        lineID          `json:"flow,omitempty"`
	CreatedAt   time.Time       `json:"created_at,omitzero"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Steps       stepValues      `json:"steps,omitempty"` // what earlier attempts have done
	Payload     json.RawMessage `json:"payload"`
}

// stepValues are the values of steps by their names.
type stepValues map[string]json.RawMessage

// lineOf writes a job as one line.
func lineOf(j *dibs.RawJob, steps stepValues) ([]byte, error) {
	line, err := encodeLine(jobLine{
		ID: lineID(j.ID), Token: j.Token, Key: j.Key, Queue: j.Queue, Kind: j.Kind, Attempt: j.Attempt, Excused: j.Excused, MaxAttempts: j.MaxAttempts,
		Group: j.Group, Schedule: j.Schedule, Tick: j.Tick, Flow: lineID(j.Flow), CreatedAt: j.CreatedAt, Metadata: j.Metadata, Steps: steps, Payload: j.Payload,
	})
	if err != nil {
		return nil, fmt.Errorf("the job cannot be written as a line of JSON: %w", err)
	}
	return line, nil
}

// encodeLine writes v as one line of JSON. Some readers, such as Node's readline, take two
// characters for line ends that are none: these are escaped.
func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	line := b.Bytes()
	if bytes.Contains(line, []byte("\u2028")) || bytes.Contains(line, []byte("\u2029")) {
		line = bytes.ReplaceAll(bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`)), []byte("\u2029"), []byte(`\u2029`))
	}
	return line, nil
}

// lineID is a job's id. One that JavaScript cannot hold is written as a string; both forms are
// read.
type lineID int64

func (id lineID) MarshalJSON() ([]byte, error) {
	text := strconv.AppendInt(nil, int64(id), 10)
	if id > maxExactID || id < -maxExactID {
		text = append(append([]byte{'"'}, text...), '"')
	}
	return text, nil
}

func (id *lineID) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	if err != nil {
		return fmt.Errorf("must be an id as an earlier line gave it, got %.40s", raw)
	}
	*id = lineID(n)
	return nil
}

// lineAnswer is what a process says of a job.
type lineAnswer struct {
	ID       *lineID         `json:"id"`
	Token    dibs.Token      `json:"token"` // zero in an answer that is wrong and does not have it
	Ending   dibs.Ending     `json:"ending"`
	Result   json.RawMessage `json:"result"`
	Error    string          `json:"error"`
	Delay    *wire.Seconds   `json:"delay"`
	Add      wire.Added      `json:"add"` // jobs to enqueue, with completed
	Progress *lineProgress   `json:"progress"`
	Step     string          `json:"step"`
	Value    json.RawMessage `json:"value"` // what the step leaves
	Before   *beforeAsk      `json:"before"`

	wrong error // what is wrong with an answer whose job is known
	asks  bool  // the wrong answer is a step or a question, so the program waits for a line
}

type lineProgress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Text  string `json:"text"`
}

// errLogLine says that a line is no answer, and is part of the process' log.
var errLogLine = errors.New("a line of the log")

// readAnswer reads a line that begins with {.
// A wrong one that says which job it is about fails that job alone; a wrong step or question is answered with the error.
// After any other error nobody knows which job was meant.
func readAnswer(line []byte) (a lineAnswer, err error) {
	err = errors.New("it is not valid UTF-8")
	if utf8.Valid(line) {
		err = wire.ReadObject(line, &a)
	}
	if err == nil && a.ID != nil && !a.Token.IsZero() && a.says() == 1 {
		return a, nil
	}
	var about struct {
		ID       *lineID
		Token    json.RawMessage
		Ending   json.RawMessage
		Progress json.RawMessage
		Step     json.RawMessage
		Before   json.RawMessage
	}
	broken := json.Unmarshal(line, &about)
	var token dibs.Token
	if json.Unmarshal(about.Token, &token) != nil || timesIn(line, "token") > 1 {
		token = dibs.Token{}
	}
	says := about.Ending != nil || about.Progress != nil || about.Step != nil || about.Before != nil
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a, errors.New("it begins with { and does not end on its line: write an answer as one line of JSON, not indented, and logs to stderr")
	case broken != nil:
		return a, errors.New(wire.Reason(cmp.Or(err, broken)) + " (a line that begins with { must be an answer: write logs to stderr)")
	case about.ID == nil && !says:
		return a, errLogLine
	case timesIn(line, "id") > 1: // either may be the one of a job
		return a, errors.New(`"id" is given twice`)
	case about.ID == nil:
		return a, errors.New(`"id" is missing: give the one of the job's line`)
	case err == nil && !says:
		err = errors.New(`"ending" is missing: completed, retry, snooze, release, dead or cancelled`)
	case err == nil && about.Ending != nil && about.Progress != nil:
		err = errors.New(`it has both "ending" and "progress"`)
	case err == nil && a.says() > 1:
		err = errors.New(`it has more than one of "ending", "progress", "step" and "before"`)
	case err == nil && a.Token.IsZero():
		err = errors.New(`"token" is missing: give the one of the job's line`)
	case err == nil:
		err = errors.New(`it has neither "ending" nor "progress" nor "step" nor "before"`)
	}
	wrong := errors.New(wire.Reason(err))
	if !says && token.IsZero() {
		return a, wrong // the id may be any number of the program's
	}
	asks := (about.Step != nil || about.Before != nil) && about.Ending == nil && about.Progress == nil
	return lineAnswer{ID: about.ID, Token: token, wrong: wrong, asks: asks}, nil
}

// says counts what an answer says of its job: only one thing is right.
func (a *lineAnswer) says() (n int) {
	for _, is := range []bool{a.Ending != "", a.Progress != nil, a.Step != "", a.Before != nil} {
		if is {
			n++
		}
	}
	return n
}

// timesIn counts how often an object has a field, in whatever case its name is written: decoders take the last one.
func timesIn(object []byte, name string) (n int) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, err := d.Token()
	for err == nil && d.More() {
		var is json.Token
		if is, err = d.Token(); err == nil {
			err = d.Decode(new(json.RawMessage))
		}
		if text, _ := is.(string); strings.EqualFold(text, name) {
			n++
		}
	}
	return n
}

// outcome checks an answer and turns it into an outcome of the library, without id and token.
func (a *lineAnswer) outcome(snooze time.Duration) (dibs.Outcome, error) {
	o := dibs.Outcome{ID: 1, Token: dibs.Token{1}, Ending: a.Ending, Result: a.Result, Error: a.Error, Delay: (*time.Duration)(a.Delay)}
	if a.wrong != nil {
		return o, a.wrong
	}
	if o.Ending == dibs.EndSnooze && o.Delay == nil {
		o.Delay = &snooze
	}
	var err error
	if o.Add, err = a.Add.Jobs(); err != nil {
		return o, err
	}
	checked, err := checks.Outcomes([]dibs.Outcome{o})
	if err != nil {
		return o, fromFirst(err)
	}
	return checked[0], nil
}

// fromFirst takes the name of the list from the error of its first outcome.
func fromFirst(err error) error {
	var rule *dibs.InvalidError
	if !errors.As(err, &rule) {
		return err
	}
	return &dibs.InvalidError{Field: strings.TrimPrefix(rule.Field, "outcomes[0]."), Reason: rule.Reason}
}

// lineSplitter calls take with each line that is written to it, without its end. A line that is
// longer than it may be comes cut, as soon as that is known, and the rest of it is left out.
type lineSplitter struct {
	take    func(line []byte, cut bool)
	most    func(start []byte) int // how many bytes a line with this start may have
	closed  func()                 // called at the end of the stream; may be nil
	start   []byte                 // what has come of the line that has not ended
	skipped bool                   // the rest of this line is left out
}

func (s *lineSplitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if p = p[len(p):]; i >= 0 {
			part, p = part[:i], part[i+1:]
		}
		s.add(part)
		if i >= 0 {
			s.flush()
		}
	}
	return n, nil
}

func (s *lineSplitter) add(part []byte) {
	if s.skipped {
		return
	}
	s.start = append(s.start, part...)
	if len(s.start) <= MaxLog {
		return
	}
	if most := s.most(s.start); len(s.start) > most {
		s.take(s.start[:most], true)
		s.start, s.skipped = nil, true
	}
}

// flush ends the line.
func (s *lineSplitter) flush() {
	if !s.skipped && len(s.start) > 0 {
		s.take(s.start, false)
	}
	s.skipped = false
	if s.start = s.start[:0]; cap(s.start) > 4*MaxLog {
		s.start = nil
	}
}

func (s *lineSplitter) Close() error {
	if s.closed != nil {
		s.closed()
	}
	return nil
}

// isObject reports whether a line begins like a JSON object.
func isObject(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t\ufeff"), []byte{'{'})
}
