package nesting_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/nesting"
)

func deep(n int) string { return strings.Repeat(`[{"a":`, n/2) + strings.Repeat("}]", n/2) }

func TestOverCountsWhatIsInsideEachOther(t *testing.T) {
	const most = 10
	wide := strings.Repeat(`{"a":[]},`, 100)
	brackets := strings.Repeat("[{", 100)
	for text, want := range map[string]bool{
		"":                                   false,
		"[" + wide + "{}]":                   false,
		deep(10):                             false,
		"[" + deep(10) + "]":                 true,
		"[" + wide + deep(10) + "]":          true,
		"[" + wide + deep(8) + "," + wide:    false,
		`["` + brackets + `"]`:               false,
		`["\"` + brackets + `"]`:             false,
		`["\\",` + deep(10) + `]`:            true,
		`["\\\\\"` + brackets + `", "[["]`:   false,
		"[" + strings.Repeat("[],", 20) + "": false,
	} {
		if nesting.Over([]byte(text), most) != want {
			t.Errorf("Over(%.60s) is %v", text, !want)
		}
	}
}

func BenchmarkOver(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			text := []byte("[" + strings.Repeat(`{"a":"0123456789"},`, size/19) + "{}]")
			for b.Loop() {
				nesting.Over(text, dibs.MaxDepth)
			}
		})
	}
}
