package ticks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// A list that would make one schedule too many is refused, and one that replaces as many as it makes is not.
func TestAListMakesNotTooManySchedules(t *testing.T) {
	t.Parallel()
	anyPayload := func(string) (int, error) { return dibs.MaxPayload, nil }
	old := make([]dibs.Schedule, dibs.MaxSchedules)
	for i := range old {
		old[i] = dibs.Schedule{Name: fmt.Sprint("s", i), Queue: "q", Kind: "k", Spec: "@daily", Zone: "UTC", Owner: "others"}
	}
	if err := room(old[1:]); err != nil {
		t.Error(err)
	}
	if err := room(old); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("one more than %d: %v", len(old), err)
	}
	list := []dibs.Schedule{{Name: "new", Queue: "q", Kind: "k", Spec: "@daily"}}
	if _, _, err := Agree("ours", list, old, time.Now(), anyPayload); err == nil || !strings.Contains(err.Error(), "10001 schedules") {
		t.Errorf("a list of one more: %v", err)
	}
	old[0].Owner = "ours"
	if put, gone, err := Agree("ours", list, old, time.Now(), anyPayload); err != nil || len(put) != 1 || len(gone) != 1 {
		t.Errorf("one in place of another: %d, %v, %v", len(put), gone, err)
	}
}
