package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// Settings of a server, a database or a role do not change what a store reads and writes,
// whoever has made its connections. If the test lists words for a setting, the store refuses
// to work, and its error has these words.
func TestSettingsOfTheServerAreSurvivedOrNamed(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	if err := Migrate(t.Context(), withParam(t, address, "standard_conforming_strings", "off"), Options{}); err != nil {
		t.Fatal(err)
	}
	text := [][2]string{
		{"DateStyle", "German"},
		{"IntervalStyle", "iso_8601"},
		{"extra_float_digits", "-15"},
		{"bytea_output", "escape"},
		{"TimeZone", "Asia/Kathmandu"},
		{"array_nulls", "off"},
		{"transform_null_equals", "on"},
		{"backslash_quote", "off"},
	}
	plans := [][2]string{
		{"plan_cache_mode", "force_custom_plan"},
		{"enable_indexscan", "off"},
		{"row_security", "off"},
		{"session_replication_role", "replica"},
		{"search_path", ""},
		{"DateStyle", "SQL, DMY"},
		{"idle_session_timeout", "20s"},
		{"lock_timeout", "20s"},
	}
	for _, h := range []struct {
		what     string
		settings [][2]string
		words    string
	}{
		{"what text looks like", text, ""},
		{"how statements run", plans, ""},
		{"how transactions run", [][2]string{{"default_transaction_isolation", "serializable"}, {"default_transaction_deferrable", "on"}}, ""},
		{"encoding", [][2]string{{"client_encoding", "LATIN1"}, {"standard_conforming_strings", "off"}}, ""},
		{"nothing is written", [][2]string{{"default_transaction_read_only", "on"}}, "read-only"},
	} {
		for i, c := range sessions {
			if i == len(sessions)-1 && h.what == "encoding" {
				continue // pgx refuses the setting if it writes values into the text, with an error that names it
			}
			t.Run(h.what+", "+c.name, func(t *testing.T) {
				t.Parallel()
				server := address
				for _, setting := range h.settings {
					server = withParam(t, server, setting[0], setting[1])
				}
				err := underSettings(t, c.open(t, server, nil), h.what+" "+c.name)
				if h.words != "" && err == nil || err != nil && (h.words == "" || !strings.Contains(err.Error(), h.words)) {
					t.Errorf("%v; want %q", err, h.words)
				}
			})
		}
	}
}

// underSettings takes jobs through what reads and writes text, times and fractions.
func underSettings(t *testing.T, s *Store, queue string) error {
	t.Helper()
	ctx := t.Context()
	const payload = `{"who":"Zoë \\ 'x'"}`
	jobs := jobsOf(queue, "", copyFrom)
	for i := range jobs {
		jobs[i].Payload = []byte(payload)
	}
	for _, batch := range [][]dibs.NewJob{jobs[:1], jobs} {
		if _, err := s.Enqueue(ctx, batch); err != nil {
			return err
		}
	}
	if _, err := s.ChangeQueue(ctx, queue, dibs.QueueChange{Backoff: &dibs.Backoff{Base: 1e9, Max: 3600e9, Factor: 1.1, Jitter: 0.3}}.Apply); err != nil {
		return err
	}
	if q, _, err := s.queue(ctx, queue); err != nil || q.Backoff.Factor != 1.1 || q.Backoff.Jitter != 0.3 {
		t.Errorf("settings are read as %+v, %v", q, err)
	}
	claimed, err := s.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 3, Lease: time.Hour})
	if err != nil {
		return err
	}
	if err := s.Finish(ctx, []dibs.Outcome{claimed[0].Lease().Die("é"), claimed[1].Lease().Retry("é"), claimed[2].Lease().Complete([]byte(`"é"`))}); err != nil {
		return err
	}
	for _, f := range []admin.Filter{{Queue: queue}, {Queue: queue, State: dibs.Dead}, {Queue: queue, State: dibs.Completed}} {
		page, err := s.List(ctx, f)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if string(j.Payload) != payload || j.State == dibs.Dead && j.Errors[0].Error != "é" {
				t.Errorf("read %s, %+v", j.Payload, j.Errors)
			}
		}
	}
	if _, err := s.Check(ctx); err != nil {
		return err
	}
	_, err = s.Stats(ctx)
	return err
}
