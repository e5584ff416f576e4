package postgres_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
)

// nestedJSON is JSON that is depth deep, with strings that look like brackets and with neighbours.
func nestedJSON(r *rand.Rand, depth int) string {
	strs := []string{`"]}"`, `"[{"`, `"\""`, `"\\"`, `"\\\"[["`, `"\u005b"`, `"ü["`, `[]`, `{}`, `[[{}],"["]`, `7`}
	var before, after []string
	for range depth {
		neighbour := ""
		if r.IntN(3) == 0 {
			neighbour = strs[r.IntN(len(strs))]
		}
		switch open := r.IntN(2); {
		case open == 0 && neighbour != "":
			before, after = append(before, "["+neighbour+", "), append(after, "]")
		case open == 0:
			before, after = append(before, "[\n"), append(after, "]")
		case neighbour != "":
			before, after = append(before, `{"[": `), append(after, `,"a\"":`+neighbour+"}")
		default:
			before, after = append(before, `{"]" :`), append(after, "}")
		}
	}
	var text strings.Builder
	text.WriteString(strings.Join(before, ""))
	text.WriteString(`"[[` + strings.Repeat(`\\[`, r.IntN(1000)) + `"`)
	for i := range after {
		text.WriteString(after[len(after)-1-i])
	}
	return text.String()
}

// The functions take the same depth as Go, in payloads and in metadata, alone and in a batch.
func TestTheFunctionsTakeTheSameDepth(t *testing.T) {
	t.Parallel()
	bySelf, byFunctions, _ := twins(t)
	ctx := t.Context()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	taken, refused := 0, 0
	for range 60 {
		depth := dibs.MaxDepth - 12 + r.IntN(16) // neighbours are up to three deep
		job := dibs.NewJob{Queue: "q", Kind: "k", Payload: json.RawMessage(nestedJSON(r, depth))}
		if r.IntN(3) == 0 {
			text := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
			job.Payload, job.Metadata = nil, json.RawMessage(text)
		}
		jobs := []dibs.NewJob{job}
		if r.IntN(2) == 0 {
			jobs = []dibs.NewJob{{Queue: "q", Kind: "k"}, {Kind: "k", Payload: strings.Repeat("[", 3000)}, {Kind: "k"}, job}
		}
		_, want := bySelf.Enqueue(ctx, jobs)
		_, got := byFunctions.Enqueue(ctx, jobs)
		var wantInvalid, gotInvalid *dibs.InvalidError
		switch {
		case want == nil && got == nil:
			taken++
		case errors.As(want, &wantInvalid) && errors.As(got, &gotInvalid) && *wantInvalid == *gotInvalid:
			refused++
		default:
			t.Fatalf("seed %d: the functions say %v, Go says %v, of %d levels: %s", seed, got, want, depth, jobs[len(jobs)-1].Payload)
		}
	}
	if t.Logf("%d taken, %d refused", taken, refused); taken == 0 || refused == 0 {
		t.Errorf("seed %d: %d taken, %d refused", seed, taken, refused)
	}
}
