package wire_test

import (
	"testing"

	"github.com/dibs-queue/dibs/internal/wire"
)

func TestHalvesOfSurrogatePairsAreReplacedAndPairsStay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"\ud800"`:                     `"\ufffd"`,
		`"\ud800\ud800x\udc00"`:        `"\ufffd\ufffdx\ufffd"`,
		`{"a":"\ud83d\ude00","b":"ä"}`: `{"a":"\ud83d\ude00","b":"ä"}`,
		`"\\ud800 \\\ud800"`:           `"\\ud800 \\\ufffd"`,
		`"\udc00\ud800"`:               `"\ufffd\ufffd"`,
		`"\n\""`:                       `"\n\""`,
	} {
		if got := string(wire.Whole([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
