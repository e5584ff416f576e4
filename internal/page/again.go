package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// maxCommand is the length in bytes of the longest command that a page shows.
const maxCommand = 8 << 10

// enqueueCommand is a command for POSIX shells that enqueues a job like this one: due at once, and without its unique
// key, which the job may still hold. attempts is the number of attempts that the queue gives its jobs. The command is
// empty if it would be too long, or if 'dibs enqueue' would refuse the job's texts.
func enqueueCommand(j *dibs.RawJob, attempts int) string {
	words := []string{"dibs", "enqueue"}
	flag := func(name, value string) { words = append(words, "--"+name+"="+value) }
	if j.Kind != j.Queue {
		flag("kind", j.Kind)
	}
	if j.Priority != dibs.DefaultPriority {
		flag("priority", fmt.Sprint(j.Priority))
	}
	if j.Group != "" {
		flag("group", j.Group)
	}
	if j.MaxAttempts != attempts {
		flag("max-attempts", fmt.Sprint(j.MaxAttempts))
	}
	if own := ownMetadata(j); len(own) > 0 {
		flag("metadata", plainJSON(own))
	}
	payload := plainJSON(j.Payload)
	if strings.HasPrefix(j.Queue, "-") || strings.HasPrefix(payload, "-") {
		words = append(words, "--")
	}
	words = append(words, j.Queue, payload)
	for i, w := range words {
		if checks.Escaped(w) != w || strings.ContainsAny(w, "\n\t") {
			return ""
		}
		words[i] = quoted(w)
	}
	text := strings.Join(words, " ")
	if j.Fault != "" || len(text) > maxCommand {
		return ""
	}
	return text
}

// ownMetadata is a job's metadata without the members that name its schedule: only the store may write those.
func ownMetadata(j *dibs.RawJob) []byte {
	if j.Schedule == "" {
		return j.Metadata
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(j.Metadata, &members) != nil {
		return j.Metadata
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return strings.HasPrefix(name, "dibs.") })
	if len(members) == 0 {
		return nil
	}
	own, _ := json.Marshal(members) // what was decoded can be encoded
	return own
}

// plainJSON writes JSON in one line, without characters that control a terminal or turn the direction of text.
func plainJSON(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "\n" // a line end makes the caller show no command
	}
	return checks.Escaped(b.String())
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// quoted quotes a word for a shell, if necessary.
func quoted(word string) string {
	if bare.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
