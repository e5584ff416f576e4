package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// behind is a database with a schedule whose tick should have had its job, and one whose has not come.
type behind struct{ admin.Database }

func (behind) Schedules(context.Context, ...string) ([]dibs.Schedule, error) {
	return []dibs.Schedule{
		{Name: "nightly", Spec: "@daily", Zone: "UTC", Queue: "mail", Kind: "k", Next: time.Now().Add(-5 * time.Minute)},
		{Name: "hourly", Spec: "@hourly", Zone: "UTC", Queue: "mail", Kind: "k", Next: time.Now().Add(5 * time.Minute)},
	}, nil
}

// The page marks schedules that are late, and the overview says so.
func TestThePageMarksLateSchedules(t *testing.T) {
	t.Parallel()
	_, url := start(t, behind{onSQLite(t)}, server.Options{})
	_, _, overview := call(t, "GET", url+"/", "")
	if text := string(overview); !strings.Contains(text, "schedule nightly should have made a job 5 min ago, though this server looks after it: see its log") || strings.Contains(text, "schedule hourly") {
		t.Errorf("the overview does not say what is late:\n%.2000s", text)
	}
	_, _, list := call(t, "GET", url+"/schedules", "")
	if n := strings.Count(string(list), "badge late"); n != 1 {
		t.Errorf("%d schedules are marked as late:\n%s", n, list)
	}
}
