package term

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
)

// IndentJSON indents JSON under the column of values.
func IndentJSON(raw json.RawMessage) string {
	if !json.Valid(raw) {
		return words.Printable(string(raw))
	}
	return words.Indented(raw, BelowValue)
}

// WriteRaw writes bytes unchanged, but escapes what could harm a terminal.
func (t *Terminal) WriteRaw(raw []byte) error {
	to := t.Screen
	if t.OutTTY {
		to = t.Stdout
	}
	_, err := to.Write(raw)
	return err
}

// KeyOf returns the id of a job's row, or of the job.
func KeyOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

// Entry is a line of a block: a name with its value, and perhaps what that means.
type Entry struct{ Name, Value, Meaning string }

// Block writes a title and, below it, the entries that have a value.
func (t *Terminal) Block(title string, entries []Entry) {
	names, values := nameColumns, 12
	explained := false
	for _, e := range entries {
		names, values = max(names, len(e.Name)), max(values, len(e.Value))
		explained = explained || e.Meaning != ""
	}
	t.Say("%s", title)
	for _, e := range entries {
		name := fmt.Sprintf("%-*s", names, e.Name)
		switch {
		case e.Value == "":
		case explained:
			t.Say("%s", strings.TrimRight(fmt.Sprintf("  %s  %-*s  %s", name, values, e.Value, t.Paint(Faint, e.Meaning)), " "))
		default:
			t.Say("  %s  %s", t.Paint(Faint, name), e.Value)
		}
	}
}

// nameColumns is how wide the names of a block are at least. Further lines of a value stand below its first one.
const nameColumns = 9

var BelowValue = strings.Repeat(" ", 2+nameColumns+2)
