package dibs_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// memory is a store that keeps jobs in memory, with just what a worker needs:
// queues, each first in first out, leases and tokens exact on time.Now. A script can
// make any call slow or fail.
type memory struct {
	lease      time.Duration
	quiet      bool // Wakeups never receives
	maxRunning int  // how many jobs may run; 0: no limit
	jobTimeout time.Duration
	script     func(ctx context.Context, call string) error

	mu    sync.Mutex
	jobs  map[int64]*dibs.RawJob
	ready []int64
	calls map[string]int
	wakes map[string]chan struct{} // by queue
	swept time.Time

	registered []dibs.WorkerInfo // all entries given to Register
}

func newMemory() *memory {
	return &memory{
		lease: 10 * time.Second,
		jobs:  map[int64]*dibs.RawJob{},
		calls: map[string]int{},
		wakes: map[string]chan struct{}{},
	}
}

// enter counts a call and runs the script. Time that the script takes passes before the
// call takes effect.
func (m *memory) enter(ctx context.Context, call string) error {
	m.mu.Lock()
	m.calls[call]++
	script := m.script
	m.mu.Unlock()
	if script == nil {
		return ctx.Err()
	}
	return script(ctx, call)
}

func (m *memory) setScript(f func(ctx context.Context, call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = f
}

// setJobTimeout is what an operator does with ChangeQueue.
func (m *memory) setJobTimeout(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobTimeout = d
}

func (m *memory) count(call string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}

// total counts all calls.
func (m *memory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, calls := range m.calls {
		n += calls
	}
	return n
}

func (m *memory) job(id int64) dibs.RawJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.jobs[id]
}

func (m *memory) Enqueue(_ context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]dibs.Enqueued, len(jobs))
	now := time.Now()
	for i, j := range jobs {
		id := int64(len(m.jobs) + 1)
		payload, _ := j.Payload.(string)
		if payload == "" {
			payload = "null"
		}
		m.jobs[id] = &dibs.RawJob{
			ID: id, Queue: cmp.Or(j.Queue, dibs.DefaultQueue), Kind: j.Kind, State: dibs.Waiting, Payload: []byte(payload),
			RunAt: now.Add(j.Delay), CreatedAt: now, MaxAttempts: 25,
		}
		m.ready = append(m.ready, id)
		out[i].ID = id
	}
	for _, j := range jobs {
		m.sendWakeup(j.Queue)
	}
	return out, nil
}

func (m *memory) sendWakeup(queue string) {
	if m.quiet {
		return
	}
	select {
	case m.wakeOf(queue) <- struct{}{}:
	default:
	}
}

// wakeOf is called with mu held.
func (m *memory) wakeOf(queue string) chan struct{} {
	queue = cmp.Or(queue, dibs.DefaultQueue)
	if m.wakes[queue] == nil {
		m.wakes[queue] = make(chan struct{}, 1)
	}
	return m.wakes[queue]
}

func (m *memory) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := m.enter(ctx, "claim"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.swept.Add(time.Second).Before(time.Now()) {
		m.sweep()
	}
	var taken []*dibs.RawJob
	var kept []int64
	now, token := time.Now(), newToken()
	i := 0
	n := r.N
	if m.maxRunning > 0 {
		n = min(n, m.maxRunning-m.running())
	}
	for ; i < len(m.ready) && len(taken) < n; i++ {
		j := m.jobs[m.ready[i]]
		if !m.claimable(j, r.Queue, r.Kinds) {
			kept = append(kept, j.ID)
			continue
		}
		taken = append(taken, m.hold(j, r.Worker, token, now))
	}
	m.ready = m.ready[i:]
	if kept != nil {
		m.ready = append(kept, m.ready...)
	}
	return taken, nil
}

// Due lists the queues that have due jobs.
func (m *memory) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	if err := m.enter(ctx, "due"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.swept.Add(time.Second).Before(time.Now()) {
		m.sweep()
	}
	for _, id := range m.ready {
		if j := m.jobs[id]; slices.Contains(queues, j.Queue) && m.claimable(j, j.Queue, kinds) && !slices.Contains(due, j.Queue) {
			due = append(due, j.Queue)
		}
	}
	return due, nil
}

func (m *memory) claimable(j *dibs.RawJob, queue string, kinds []string) bool {
	return j.Queue == cmp.Or(queue, dibs.DefaultQueue) && !j.RunAt.After(time.Now()) && (len(kinds) == 0 || slices.Contains(kinds, j.Kind))
}

func (m *memory) runningNow() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running()
}

func (m *memory) running() (n int) {
	for _, j := range m.jobs {
		if j.State == dibs.Running {
			n++
		}
	}
	return n
}

func (m *memory) hold(j *dibs.RawJob, worker string, token dibs.Token, now time.Time) *dibs.RawJob {
	j.State, j.Worker, j.Token, j.Limited, j.Timeout = dibs.Running, worker, token, m.maxRunning > 0, m.jobTimeout
	j.ClaimedAt, j.LeaseUntil = now, now.Add(m.lease)
	j.Attempt++
	given := *j
	return &given
}

func newToken() (t dibs.Token) {
	rand.Read(t[:])
	return t
}

// steal gives a running job to another worker.
func (m *memory) steal(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(m.jobs[id], "thief", newToken(), time.Now())
}

func (m *memory) cancel(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs[id].CancelRequested = true
}

func (m *memory) holds(l dibs.Lease) bool {
	j := m.jobs[l.ID]
	return j != nil && j.State == dibs.Running && j.Token == l.Token && time.Now().Before(j.LeaseUntil)
}

func (m *memory) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	if err := m.enter(ctx, "extend"); err != nil {
		return dibs.Extended{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var e dibs.Extended
	for _, l := range leases {
		if !m.holds(l) {
			e.Lost = append(e.Lost, l.ID)
			continue
		}
		j := m.jobs[l.ID]
		j.LeaseUntil = time.Now().Add(d)
		if l.Progress != nil {
			j.Progress = l.Progress
		}
		if j.CancelRequested {
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		if m.jobTimeout > 0 && time.Since(j.ClaimedAt) > m.jobTimeout {
			e.TimedOut = append(e.TimedOut, l.ID)
		}
	}
	return e, nil
}

func (m *memory) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if err := m.enter(ctx, "finish"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.maxRunning > 0 {
		for queue := range m.wakes {
			defer m.sendWakeup(queue)
		}
	}
	var refused []int64
	for _, o := range outcomes {
		if string(o.Result) == `"poison"` {
			return errPoison
		}
	}
	for _, o := range outcomes {
		if !m.holds(dibs.Lease{ID: o.ID, Token: o.Token}) {
			refused = append(refused, o.ID)
			continue
		}
		m.end(m.jobs[o.ID], o)
	}
	if refused != nil {
		return &dibs.FinishError{Lost: refused}
	}
	return nil
}

func (m *memory) end(j *dibs.RawJob, o dibs.Outcome) {
	now := time.Now()
	j.Token, j.FinishedAt = dibs.Token{}, now
	if o.Error != "" {
		j.Errors = append(j.Errors, dibs.AttemptError{Attempt: j.Attempt, At: now, Error: o.Error})
	}
	if state := j.After(o); state.Final() {
		j.State, j.Result = state, o.Result
		return
	}
	switch o.Ending {
	case dibs.EndRetry:
		delay := time.Minute
		if o.Delay != nil {
			delay = *o.Delay
		}
		j.RunAt = now.Add(delay)
	case dibs.EndSnooze:
		j.RunAt = now.Add(*o.Delay)
		j.Excused++
	case dibs.EndRelease:
		j.Excused++
	}
	j.State, j.FinishedAt = dibs.Waiting, time.Time{}
	m.ready = append(m.ready, j.ID)
}

func (m *memory) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := m.enter(ctx, "resume"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var taken []*dibs.RawJob
	token := newToken()
	for _, j := range m.jobs {
		if j.State == dibs.Running && j.Worker == r.Worker && j.Queue == cmp.Or(r.Queue, dibs.DefaultQueue) {
			taken = append(taken, m.hold(j, r.Worker, token, time.Now()))
		}
	}
	return taken, nil
}

func (m *memory) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	if err := m.enter(ctx, "register"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.registered = append(m.registered, workers...)
	return nil
}

func (m *memory) Sweep(ctx context.Context) (dibs.Swept, error) {
	if err := m.enter(ctx, "sweep"); err != nil {
		return dibs.Swept{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sweep(), nil
}

func (m *memory) sweep() (s dibs.Swept) {
	m.swept = time.Now()
	for _, j := range m.jobs {
		if j.State == dibs.Running && !time.Now().Before(j.LeaseUntil) {
			j.State, j.Token = dibs.Waiting, dibs.Token{}
			m.ready = append(m.ready, j.ID)
			s.Expired++
		}
	}
	return s
}

func (m *memory) Wakeups(queue string) (<-chan struct{}, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wakeOf(queue), func() {}
}

func (m *memory) Close() error { return nil }
