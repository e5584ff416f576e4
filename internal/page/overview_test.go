package page

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

func TestJobsThatHangAreAnAlarm(t *testing.T) {
	t.Parallel()
	held := holdups.HeldJob{ID: 7, Kind: "send", Worker: "anna", PID: 12, Host: "h", Since: time.Now().Add(-9 * time.Minute)}
	const who = "worker anna (process 12 on h) has held job 7 (send) for 9m; "
	for name, c := range map[string]struct {
		hang  holdups.Hang
		alarm alarm
	}{
		"for a while":         {holdups.Hang{Idle: 2 * time.Minute, Since: true}, alarm{Text: who + "no attempt of the queue has ended since; a timeout ends these attempts, and each of them counts", Settings: "set a job timeout"}},
		"for long":            {holdups.Hang{Idle: 9 * time.Minute, Since: true, Last: 1}, alarm{Bad: true, Text: who + "no attempt of the queue has ended since; a timeout ends these attempts, and each of them counts: 1 job has no other attempt left and would be dead", Settings: "set a job timeout"}},
		"despite its timeout": {holdups.Hang{Idle: 9 * time.Minute, Ignored: time.Minute}, alarm{Bad: true, Text: who + "the queue's timeout of 60s is over, and its handlers do not heed that: only the end of their processes ends them", Next: "kill 12 # on h"}},
	} {
		c.hang.Jobs, c.alarm.Queue, c.alarm.Cause = []holdups.HeldJob{held}, "q", causeHangs
		now := look{at: time.Now(), hangs: map[string]holdups.Hang{"q": c.hang}}
		list := alarms(now, queueRow{QueueStats: admin.QueueStats{Queue: "q", Waiting: 1, Running: 1, Claimed: 1}, Workers: 1})
		if len(list) != 1 || !reflect.DeepEqual(list[0], c.alarm) {
			t.Errorf("%s: the alarms are %+v, want %+v", name, list, c.alarm)
		}
	}
}

func textsOf(list []alarm) string {
	var texts []string
	for _, a := range list {
		texts = append(texts, fmt.Sprintf("%v %s", a.Bad, a.Text))
	}
	return strings.Join(texts, "; ")
}

func TestAlarms(t *testing.T) {
	const window = 5 * time.Minute
	for want, q := range map[string]queueRow{
		"":                            {QueueStats: admin.QueueStats{Window: window, Succeeded: 9, Failed: 1, Claimed: 10}},
		"true no worker: 1 job waits": {QueueStats: admin.QueueStats{Waiting: 1}},
		"true no worker: 7 jobs wait, the oldest for 10 min":  {QueueStats: admin.QueueStats{Waiting: 9, Scheduled: 4, Blocked: 2, OldestAge: 10 * time.Minute}},
		"true no worker: jobs wait":                           {QueueStats: admin.QueueStats{Waiting: 10_012, Scheduled: 10_000, ScheduledMore: true}},
		"false is paused":                                     {QueueStats: admin.QueueStats{Waiting: 5, Paused: true, OldestAge: time.Hour}},
		"true its oldest due job has waited 10 min":           {QueueStats: admin.QueueStats{Waiting: 5, OldestAge: 10 * time.Minute}, Workers: 1},
		"false 25 % of the attempts of the last 5 min failed": {QueueStats: admin.QueueStats{Window: window, Succeeded: 9, Failed: 3, Claimed: 12}},
		"true 50 % of the attempts of the last 5 min failed":  {QueueStats: admin.QueueStats{Window: window, Succeeded: 5, Failed: 5, Claimed: 10}},
		"false is held by its rate":                           {QueueStats: admin.QueueStats{Window: window, Waiting: 5, Claimed: 290, Succeeded: 290}, Settings: dibs.Queue{Rate: dibs.Rate{N: 1, Per: time.Second}}, Workers: 1},
	} {
		if got := textsOf(alarms(look{at: time.Now()}, q)); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	few := queueRow{QueueStats: admin.QueueStats{Window: window, Failed: 1, Claimed: 1}}
	slow := queueRow{QueueStats: admin.QueueStats{Window: window, Waiting: 5, Claimed: 200}, Settings: dibs.Queue{Rate: dibs.Rate{N: 1, Per: time.Second}}, Workers: 1}
	for _, q := range []queueRow{few, slow} {
		if got := textsOf(alarms(look{}, q)); got != "" {
			t.Errorf("%+v: %q, want nothing", q, got)
		}
	}
}

// Many queues without a worker do not hide alarms that matter more.
func TestTheForemostAlarms(t *testing.T) {
	var all []alarm
	for range 35 {
		all = append(all, alarms(look{}, queueRow{QueueStats: admin.QueueStats{Queue: "a", Waiting: 1}})...)
		all = append(all, alarms(look{}, queueRow{QueueStats: admin.QueueStats{Queue: "b", Paused: true}})...)
	}
	now := look{at: time.Now(), deaths: map[string]deaths{"z": {Count: 3, Text: "boom", Most: 3, Last: time.Now()}}}
	all = append(all, alarms(now, queueRow{QueueStats: admin.QueueStats{Queue: "z", Dead: 3}})...)
	list, more := foremost(all)
	if more != 71-len(list) || len(list) != 1+2*maxAlike || list[0].Queue != "z" || list[1].Queue != "a" || list[len(list)-1].Queue != "b" {
		t.Errorf("%d more than %s", more, textsOf(list))
	}
}

// What the overview says of dead jobs agrees with their exact number beside it.
func TestTheAlarmOfDeathsAgreesWithTheirNumber(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		d    deaths
		dead int64
	}{
		"3 dead since; : boom":                                              {deaths{Count: 3, Most: 3}, 3},
		"3 dead since; , 2 of them: boom":                                   {deaths{Count: 3, Most: 2}, 3},
		"5 dead, 3 of them since; ; 2 of these: boom":                       {deaths{Count: 3, Most: 2}, 5},
		"50\u202f000 dead, the last 1\u202f000 since; ; 667 of these: boom": {deaths{Count: 1000, Most: 667, Full: true}, 50_000},
		"50\u202f000 dead, the last 1\u202f000 since; : boom":               {deaths{Count: 1000, Most: 1000, Full: true}, 50_000},
	} {
		c.d.Text = "boom"
		now := look{at: time.Now(), deaths: map[string]deaths{"q": c.d}}
		a, some := deathAlarm(now, queueRow{QueueStats: admin.QueueStats{Queue: "q", Dead: c.dead}})
		if got := a.Text + "; " + a.More; !some || got != want {
			t.Errorf("%+v: %q, want %q", c.d, got, want)
		}
	}
}
