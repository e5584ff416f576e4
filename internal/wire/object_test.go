package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// Whoever is told that an object is wrong learns which field it is, and what it should be.
func TestWhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	type Inner struct {
		Done int64   `json:"done"`
		Per  Seconds `json:"per"`
	}
	type object struct {
		Inner
		Name   string          `json:"name"`
		N      *int            `json:"n"`
		Delay  *Seconds        `json:"delay"`
		RunAt  *time.Time      `json:"run_at"`
		Token  dibs.Token      `json:"token"`
		Kinds  []string        `json:"kinds"`
		Raw    json.RawMessage `json:"raw"`
		Part   *Inner          `json:"part"`
		Factor float64         `json:"factor"`
	}
	for text, want := range map[string][2]string{ // the field, and the start of the reason
		`{"raw":1,"delay":"soon"}`:                {"delay", `"soon" is no duration; write 250ms`},
		`{"delay":[]}`:                            {"delay", `[] is no duration; write a number of seconds`},
		`{"run_at":5}`:                            {"run_at", `a time must be written as "2026-11-21T08:30:00Z", in a string`},
		`{"run_at":"tomorrow"}`:                   {"run_at", `a time must be written as "2026-11-21T08:30:00Z", got "tomorrow"`},
		`{"n":"high"}`:                            {"n", "must be a whole number, and is a string"},
		`{"n":1.5}`:                               {"n", "must be a whole number, and is a number 1.5"},
		`{"name":["a"]}`:                          {"name", "must be a string, and is an array"},
		`{"factor":"x"}`:                          {"factor", "must be a number, and is a string"},
		`{"token":"abc"}`:                         {"token", "a token must be 32 hexadecimal digits"},
		`{"token":7}`:                             {"token", "must be a string of 32 hexadecimal digits, and is a number"},
		`{"kinds":"a"}`:                           {"kinds", "must be a list, and is a string"},
		`{"kinds":["a",{"b":[]}]}`:                {"kinds[1]", "must be a string, and is an object"},
		`{"part":7}`:                              {"part", "must be an object, and is a number"},
		`{"part":{"done":"half"}}`:                {"part.done", "must be a whole number, and is a string"},
		`{"part":{"dnoe":1}}`:                     {"part.dnoe", "is an unknown field; the object has done, per"},
		`{"part":{"Done":1}}`:                     {"part.Done", "is an unknown field; the object has done, per"},
		`{"Delay":5}`:                             {"Delay", "is an unknown field; the object has done, per, name, n, delay, run_at, token, kinds, raw, part, factor"},
		`{"Inner":{"done":1}}`:                    {"Inner", "is an unknown field"},
		`{"done":"half"}`:                         {"done", "must be a whole number, and is a string"},
		`{"name":"a","nmae":1}`:                   {"nmae", "is an unknown field"},
		`{"n":1,"name":"a","N":2}`:                {"N", "is an unknown field"},
		`{"n":1,"name":"a","n":2}`:                {"n", "is given twice"},
		"{\"\\u001b[2J\":1}":                      {`"\x1b[2J"`, "is an unknown field"},
		`{"` + strings.Repeat("x", 1000) + `":1}`: {`"` + strings.Repeat("x", 60) + `"`, "is an unknown field"},
		`{"n":1`:                                  {"", "it is cut off"},
		`{"n" 1}`:                                 {"", "invalid character '1' after object key, at its byte 6"},
		`{"n":1}}`:                                {"", "it is followed by more than its line should hold"},
		`7`:                                       {"", "it must be an object, and is a number"},
		`{"name":"a","n":1,"kinds":[],"part":null}`: {},
	} {
		err := ReadObject([]byte(text), &object{})
		var field *FieldError
		var rule *dibs.InvalidError
		switch {
		case want[1] == "":
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case err == nil:
			t.Errorf("%s was read", text)
		case want[0] == "":
			if errors.As(err, &field) || !strings.HasPrefix(Reason(err), want[1]) {
				t.Errorf("%s: %v", text, Reason(err))
			}
		case !errors.As(err, &field) || !errors.As(err, &rule) || field.Field != want[0] || !strings.HasPrefix(Reason(field.Err), want[1]) ||
			rule.Error() != err.Error() || Reason(err) != err.Error():
			t.Errorf("%.200s:\n got %v\nwant %s: %s", text, err, want[0], want[1])
		}
	}
}

func TestNoFieldIsReadTwice(t *testing.T) {
	t.Parallel()
	for line, twice := range map[string]string{
		`null`:                                     "",
		`{"rate":{"n":1},"n":{"rate":2}}`:          "",
		`{"rate":{"n":1,"n":2}}`:                   "rate.n",
		`{"rate":{"per":{"a":{"b":1,"b":2}}}}`:     "rate.per.a.b",
		`{"rate":{"n":[1,{"a":1}]},"rate":{}}`:     "rate",
		`{"payload":{"n":1,"n":2},"n":3}`:          "",
		`{"payload":{"n":1,"n":2},"payload":3}`:    "payload",
		`{"result":[{"n":1,"n":2}],"metadata":{}}`: "",
		`{"jobs":[{"payload":{"n":1,"n":2}}]}`:     "",
	} {
		var to struct {
			Rate     json.RawMessage   `json:"rate"`
			N        json.RawMessage   `json:"n"`
			Payload  json.RawMessage   `json:"payload"`
			Result   json.RawMessage   `json:"result"`
			Metadata json.RawMessage   `json:"metadata"`
			Jobs     []json.RawMessage `json:"jobs"`
		}
		err := ReadObject([]byte(line), &to)
		if twice == "" && err == nil || twice != "" && err != nil && err.Error() == twice+": is given twice" {
			continue
		}
		t.Errorf("%s gives %v", line, err)
	}
	deep := strings.Repeat(`{"n":`, 5000) + `{"a":1,"a":2}` + strings.Repeat("}", 5000)
	if err := ReadObject([]byte(`{"N":`+deep+"}"), &struct{ N json.RawMessage }{}); err == nil || !strings.HasSuffix(err.Error(), ".n.a: is given twice") || len(err.Error()) > 300 {
		t.Errorf("%v", err)
	}
}

// item counts how often one is decoded.
type item struct{}

var decodes int

func (*item) UnmarshalJSON([]byte) error {
	decodes++
	return nil
}

// few is a list that takes three items.
type few []item

func (few) Limit(field string, n int) error {
	if n > 3 {
		return &dibs.InvalidError{Field: field, Reason: "are too many"}
	}
	return nil
}

// An item is decoded once, and not at all if its list is too long.
func TestTooLongListsAreNotDecoded(t *testing.T) {
	type object struct {
		Few  few            `json:"few"`
		Many []item         `json:"many"`
		Part map[string]any `json:"part"`
	}
	many := func(n int) string { return "[" + strings.Repeat(`"],[\"", `, n-1) + "7]" }
	for text, want := range map[string]struct {
		err     string
		decodes int
	}{
		`{"few":[1,{"a":[1,2,3,4]},[[]]]}`:                   {"", 3},
		`{"few":[ ]}`:                                        {"", 0},
		`{"few":[1,2,3,4],"many":[1]}`:                       {"few: are too many", 0},
		`{"many":[1],"few":[1.5e3,"]",{"}":[]},null]}`:       {"few: are too many", 0},
		`{"many":` + many(dibs.MaxBatch) + `}`:               {"", dibs.MaxBatch},
		`{"many":` + many(dibs.MaxBatch+1) + `}`:             {"many: has 10001 items, the limit is 10000", 0},
		`{"part":{"x":{"y":` + many(dibs.MaxBatch+1) + `}}}`: {"part.x.y: has 10001 items, the limit is 10000", 0},
		`{"few":[1]}` + many(10):                             {"it is followed by more than its line should hold", 0},
	} {
		decodes = 0
		err := ReadObject([]byte(text), &object{})
		if got := ""; err != nil {
			if got = Reason(err); got != want.err && err.Error() != want.err {
				t.Errorf("%.60s: %v", text, err)
			}
		} else if want.err != "" {
			t.Errorf("%.60s was read", text)
		}
		if decodes != want.decodes {
			t.Errorf("%.60s: %d items decoded, want %d", text, decodes, want.decodes)
		}
	}
	short, long := []byte(`{"many":`+many(dibs.MaxBatch+1)+`}`), []byte(`{"many":`+many(50*dibs.MaxBatch)+`}`)
	least := testing.AllocsPerRun(10, func() { _ = ReadObject(short, &object{}) })
	if most := testing.AllocsPerRun(10, func() { _ = ReadObject(long, &object{}) }); most > least+10 {
		t.Errorf("%v allocations for the short list, %v for the long one", least, most)
	}
}

// A type that reads its JSON by itself is no object with fields, though it is a struct.
func TestATimeThatIsAnObjectIsRefusedWithItsField(t *testing.T) {
	t.Parallel()
	var wrong *FieldError
	if err := ReadObject([]byte(`{"run_at": {}}`), &NewJob{}); !errors.As(err, &wrong) || wrong.Field != "run_at" {
		t.Errorf("got %v", err)
	}
	if err := ReadObject([]byte(`{"backoff": {"max": "often"}}`), &Settings{}); !errors.As(err, &wrong) || wrong.Field != "backoff.max" {
		t.Errorf("got %v", err)
	}
}
