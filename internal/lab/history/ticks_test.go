package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Two schedules with a tick each second have each had a job for their first three ticks.
func TestTicksWithoutExactlyOneJobAreFound(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	for damage, do := range map[string]func([]*dibs.RawJob, []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule){
		"none": func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) { return j, s },
		"a tick has no job": func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) {
			return slices.Delete(j, 1, 2), s
		},
		"the last has no job": func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) { return j[:len(j)-1], s },
		"a tick has two":      func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) { return append(j, j[1]), s },
		"a schedule was lost": func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) { return j, s[:1] },
		"a tick is to come twice": func(j []*dibs.RawJob, s []dibs.Schedule) ([]*dibs.RawJob, []dibs.Schedule) {
			s[1].Next = at(3)
			return j, s
		},
	} {
		var jobs []*dibs.RawJob
		var schedules []dibs.Schedule
		for _, name := range []string{"a", "b"} {
			schedules = append(schedules, dibs.Schedule{Name: name, Since: at(0), LastTick: at(3), Next: at(4)})
			for n := range 3 {
				jobs = append(jobs, &dibs.RawJob{Schedule: name, Tick: at(n + 1)})
			}
		}
		jobs, schedules = do(jobs, schedules)
		v := history.Ticks(schedules, jobs, time.Second)
		if broken := len(v.Broken) > 0; broken == (damage == "none") || v.Checked == 0 {
			t.Errorf("%s: %d checked, broken: %v", damage, v.Checked, v.Broken)
		}
	}
}

func TestJobsOfAKeyWithinItsPeriodAreFound(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	jobs := []*dibs.RawJob{{Kind: "a", CreatedAt: at(150)}, {Kind: "b", CreatedAt: at(10)}, {Kind: "a", CreatedAt: at(0)}}
	if v := history.Periods(jobs, 150*time.Millisecond); v.Checked != 3 || len(v.Broken) > 0 {
		t.Errorf("%d checked, broken: %v", v.Checked, v.Broken)
	}
	jobs = append(jobs, &dibs.RawJob{Kind: "a", CreatedAt: at(299)})
	if v := history.Periods(jobs, 150*time.Millisecond); len(v.Broken) != 1 {
		t.Errorf("broken: %v, want one", v.Broken)
	}
}
