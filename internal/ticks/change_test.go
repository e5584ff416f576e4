package ticks

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func TestAJobKnowsItsTick(t *testing.T) {
	tick := time.Date(2026, 11, 23, 7, 0, 0, 123456000, time.UTC)
	for own, want := range map[string]string{
		"":                   `{"dibs.schedule":"a\"b","dibs.tick":"2026-11-23T07:00:00.123456Z"}`,
		"{}":                 `{"dibs.schedule":"a\"b","dibs.tick":"2026-11-23T07:00:00.123456Z"}`,
		" { } ":              `{"dibs.schedule":"a\"b","dibs.tick":"2026-11-23T07:00:00.123456Z"}`,
		`{"x": [1], "y":{}}`: `{"dibs.schedule":"a\"b","dibs.tick":"2026-11-23T07:00:00.123456Z","x": [1], "y":{}}`,
	} {
		s := dibs.Schedule{Name: `a"b`, Kind: "k", Priority: new(7), Payload: json.RawMessage("1"), Metadata: json.RawMessage(own)}
		row := Job(&s, tick)
		if string(row.Metadata) != want || !row.RunAt.Equal(tick) {
			t.Errorf("metadata %q became %s, want %s", own, row.Metadata, want)
		}
		j := dibs.RawJob{Metadata: row.Metadata}
		if Read(&j); j.Schedule != s.Name || !j.Tick.Equal(tick) {
			t.Errorf("from %s was read %q, %v", row.Metadata, j.Schedule, j.Tick)
		}
		byHand := dibs.RawJob{Metadata: Job(&s, time.Time{}).Metadata}
		if Read(&byHand); byHand.Schedule != s.Name || !byHand.Tick.IsZero() || !json.Valid(byHand.Metadata) {
			t.Errorf("run by hand: %s was read as %q, %v", byHand.Metadata, byHand.Schedule, byHand.Tick)
		}
	}
	for _, other := range []string{`{"dibs.other":1}`, `{"a":"dibs.schedule"}`, `{"dibs.schedule":5}`, `"dibs.`, `{"x":{"dibs.schedule":"n"}}`, `{"a":1,"dibs.schedule":"n"}`, `{"dibs.\u0073chedule":"n"}`} {
		j := dibs.RawJob{Metadata: json.RawMessage(other)}
		if Read(&j); j.Schedule != "" {
			t.Errorf("%s was taken for the metadata of a schedule's job", other)
		}
	}
}

func TestAJobIsLaterByItsJitter(t *testing.T) {
	s := dibs.Schedule{Name: "s", Kind: "k", Priority: new(7), Jitter: time.Second}
	tick := time.Now()
	seen := map[bool]int{}
	for range 200 {
		late := Job(&s, tick).RunAt.Sub(tick)
		if late < 0 || late > time.Second {
			t.Fatalf("the job is %v late", late)
		}
		seen[late > time.Second/2]++
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("of 200 jobs %d were late by more than half of the jitter", seen[true])
	}
}

func TestWhatFitsIntoATransaction(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := []time.Time{at, at.Add(1), at.Add(2)}
	s := dibs.Schedule{Payload: json.RawMessage("12345")}
	for _, test := range []struct {
		b    Budget
		fit  int
		rest time.Time
	}{
		{Budget{Jobs: 3, Bytes: 15}, 3, time.Time{}},
		{Budget{Jobs: 2, Bytes: 15}, 2, due[2]},
		{Budget{Jobs: 3, Bytes: 14}, 2, due[2]},
		{Budget{Jobs: 1, Bytes: 1}, 1, due[1]}, // the first always does
	} {
		b := test.b
		fit, rest := b.take(&s, due)
		if len(fit) != test.fit || !rest.Equal(test.rest) {
			t.Errorf("%+v: %d fit, the rest begins at %v", test.b, len(fit), rest)
		}
		if fit, rest := b.take(&s, due[:1]); len(fit) != 0 || !rest.Equal(due[0]) {
			t.Errorf("%+v: after that %d fit", test.b, len(fit))
		}
	}
}

func TestTheTimerCalls(t *testing.T) {
	calls := make(chan struct{}, 10)
	timer := NewTimer(t.Context(), func(context.Context) error { calls <- struct{}{}; return nil })
	timer.Set(time.Hour)
	timer.Set(time.Millisecond)
	<-calls
	timer.Set(0)
	<-calls
	timer.Set(time.Hour)
	timer.Unset()
	timer.Stop()
	timer.Set(0)
	if len(calls) > 0 {
		t.Error("a timer that was stopped has called")
	}
}
