package server

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestThePageListsEachLimit compares the table in docs/howto/serve.md with the defaults.
func TestThePageListsEachLimit(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/howto/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := reflect.ValueOf(Limits{}.withDefaults())
	for i := range defaults.NumField() {
		field := "`Limits." + defaults.Type().Field(i).Name + "` |"
		_, row, _ := strings.Cut(rowOf(string(page), field), " | ")
		said, _, _ := strings.Cut(row, " | ")
		if want := inWords(defaults.Field(i)); said != want {
			t.Errorf("docs/howto/serve.md says %q of %s, it is %s", said, field, want)
		}
	}
}

// rowOf is the line of a page that holds a text.
func rowOf(page, text string) string {
	for line := range strings.Lines(page) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// inWords writes a limit as the page does.
func inWords(limit reflect.Value) string {
	n := limit.Int()
	switch d, ok := limit.Interface().(time.Duration); {
	case ok && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case ok:
		return fmt.Sprintf("%d s", d/time.Second)
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return strconv.FormatInt(n, 10)
}
