package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"
)

// Jobs may start in another order than they were sent in.
func TestTheFirstSecondIsApart(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	starts := []Start{{3 * second, 3*second + 30}, {second, second + 10}, {2*second - 1, 2*second + 19}, {2 * second, 2*second + 40}}
	early, late := waits(starts, time.Second)
	if !slices.Equal(early, []time.Duration{10, 20}) || !slices.Equal(late, []time.Duration{30, 40}) {
		t.Errorf("early %v, late %v", early, late)
	}
	if early, late := waits(starts, 0); len(early) != 0 || len(late) != len(starts) {
		t.Errorf("without a first second: early %v, late %v", early, late)
	}
}

// Wide payloads have to stay wide: the server compresses them.
func TestLettersDoNotCompress(t *testing.T) {
	t.Parallel()
	for _, size := range Sizes {
		var text bytes.Buffer
		w := gzip.NewWriter(&text)
		if err := errors.Join(json.NewEncoder(w).Encode(Letter(size)), w.Close()); err != nil {
			t.Fatal(err)
		}
		if text.Len() < size*7/10 {
			t.Errorf("%d bytes become %d", size, text.Len())
		}
	}
}
