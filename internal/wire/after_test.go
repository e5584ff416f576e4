package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
)

func TestJobsThatComeAfterOthersAreReadInThreeForms(t *testing.T) {
	t.Parallel()
	given := dibs.NewJob{Kind: "bind", Ref: "old", After: []dibs.Dep{{ID: 5}}}
	for text, want := range map[string][]dibs.Dep{
		`{"ref":"book","after":["page",17,{"ref":"page","on":"ended"},{"id":17,"on":"failed"}, {"id":"9223372036854775807"}]}`: {
			{Ref: "page"},
			{ID: 17},
			{Ref: "page", On: dibs.NeedEnded},
			{ID: 17, On: dibs.NeedFailed},
			{ID: 1<<63 - 1},
		},
		`{"ref":"book","after":[]}`:     {},
		`{"ref":"book","after":null}`:   given.After,
		`{"ref":"book"}`:                given.After,
		`{"ref":"book","after":["17"]}`: {{Ref: "17"}},
	} {
		job, err := ReadJob([]byte(text), given)
		if err != nil || job.Ref != "book" || !reflect.DeepEqual(job.After, want) {
			t.Errorf("%s is read as %+v, %v", text, job, err)
		}
	}
}

// An entry that cannot be read is named by its place.
func TestAWrongEntryOfAfterIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"page"`:                              "after: must be a list, and is a string",
		`{"ref":"page"}`:                      "after: must be a list, and is an object",
		`["page",true]`:                       `after[1]: must be a ref in a string, an id as a number, or an object such as {"ref": "page", "on": "ended"}, got true`,
		`[null]`:                              "after[0]: must be a ref in a string",
		`[["page"]]`:                          "after[0]: must be a ref in a string",
		`[1,0]`:                               "after[1]: an id must be at least 1, got 0",
		`[1.5]`:                               "after[0]: an id must be a whole number, got 1.5",
		`[99999999999999999999]`:              "after[0]: an id must be a whole number, got 99999999999999999999",
		`["a",{"id":-4}]`:                     "after[1]: an id must be at least 1, got -4",
		`["a",{"id":"four"}]`:                 `after[1].id: an id must be a whole number, or a string of one, got "four"`,
		`["a",{"id":"0"}]`:                    "after[1]: an id must be at least 1, got 0",
		`["a","b",{"ref":"a","onn":"ended"}]`: "after[2].onn: is an unknown field; the object has ref, id, on",
		`[{"ref":"a","ref":"b"}]`:             "after[0].ref: is given twice",
		`["\ud800"]`:                          `after[0]: has half of a surrogate pair`,
		`[{"ref":"\ud800x"}]`:                 `after[0]: has half of a surrogate pair`,
		"[" + strings.Repeat("1,", dibs.MaxAfter) + "1]": "after: has 100001 items, the limit is 100000",
	} {
		_, err := ReadJob([]byte(`{"after":`+text+`}`), dibs.NewJob{})
		var field *FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s gives %v, want %s", text, err, want)
		}
	}
	if _, err := ReadJob(fmt.Appendf(nil, `{"after":[%s1]}`, strings.Repeat("1,", dibs.MaxAfter-1)), dibs.NewJob{}); err != nil {
		t.Error(err)
	}
}
