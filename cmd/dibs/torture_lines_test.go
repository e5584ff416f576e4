//go:build unix

package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/needs"
)

// The torture's processes that stay end jobs in every way that a program can, and some by mistakes.
func TestTortureLinesEndsJobsInEveryWay(t *testing.T) {
	needs.Long(t)
	t.Setenv(clitest.AsCommand, "1") // for the processes
	var part torture.Part
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	defer a.tortureLines(&part)()
	endings, mistakes := map[dibs.Ending]int{}, 0
	for id := range int64(1500) {
		job := &dibs.RawJob{ID: id + 1, Token: dibs.Token{1}, Queue: "q", Kind: "k", Payload: json.RawMessage("1")}
		err := part.Lines(t.Context(), job)
		endings[dibs.OutcomeOf(t.Context(), err).Ending]++
		if err != nil && strings.Contains(err.Error(), "the process") {
			mistakes++
		}
	}
	for _, ending := range []dibs.Ending{dibs.EndCompleted, dibs.EndRetry, dibs.EndSnooze, dibs.EndRelease, dibs.EndDead} {
		if endings[ending] < 5 {
			t.Errorf("%d of 1500 jobs are %s: %v", endings[ending], ending, endings)
		}
	}
	if mistakes < 5 || endings[dibs.EndCompleted] < 1000 {
		t.Errorf("%d mistakes, and %v", mistakes, endings)
	}
}
