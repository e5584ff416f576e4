package checks

import (
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// HistoryMinutes is how many minutes the history of counts is kept.
const HistoryMinutes = int(admin.HistoryKept / time.Minute)

// Minutes adds up what a store has read for Admin.History.
type Minutes struct {
	Queues []string // queues by their names for the store: "" stands for all queues together
	Before int      // how many minutes before this one to read
	sums   map[minuteOf]sums
}

type minuteOf struct {
	queue string
	at    time.Time
}

type sums struct {
	admin.Minute
	wait, run int64 // microseconds
}

// NewMinutes checks what is asked for.
func NewMinutes(since time.Duration, queues []string) (*Minutes, error) {
	if since == 0 {
		since = time.Hour
	}
	if since < 0 || since > admin.HistoryKept {
		return nil, invalid("since", "must be up to %v ago, got %v", admin.HistoryKept, since)
	}
	m := &Minutes{Queues: queues, Before: int((since + time.Minute - 1) / time.Minute)}
	if len(queues) == 0 {
		m.Queues = []string{""}
	}
	return m, listed("queues", queues)
}

// Begin forgets what was read before.
func (m *Minutes) Begin() { m.sums = map[minuteOf]sums{} }

// Add adds a row; wait and run are sums in microseconds.
func (m *Minutes) Add(row admin.Minute, wait, run int64) {
	key := minuteOf{row.Queue, row.At.UTC()}
	s := m.sums[key]
	s.Enqueued, s.Claimed, s.Succeeded = s.Enqueued+row.Enqueued, s.Claimed+row.Claimed, s.Succeeded+row.Succeeded
	s.Failed, s.Died = s.Failed+row.Failed, s.Died+row.Died
	s.wait, s.run = s.wait+wait, s.run+run
	m.sums[key] = s
}

// List returns all minutes up to the last, in order.
func (m *Minutes) List(last time.Time) []admin.Minute {
	list := make([]admin.Minute, 0, (m.Before+1)*len(m.Queues))
	for i := range m.Before + 1 {
		at := last.UTC().Add(time.Duration(i-m.Before) * time.Minute)
		for _, q := range m.Queues {
			s := m.sums[minuteOf{q, at}]
			s.Queue, s.At = q, at
			if s.Claimed > 0 {
				s.AvgWait = Micros(s.wait / s.Claimed)
			}
			if n := s.Succeeded + s.Failed; n > 0 {
				s.AvgRun = Micros(s.run / n)
			}
			list = append(list, s.Minute)
		}
	}
	return list
}
