package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// process collects what happens in this process.
type process struct {
	enqueued, claimed, attempts, lost *prometheus.CounterVec
	waits, runs                       *prometheus.HistogramVec

	calls   *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	batches *prometheus.HistogramVec

	running prometheus.Gauge
	places  prometheus.Gauge

	mu      sync.Mutex
	queues  names
	kinds   names
	series  map[pair]*series
	figures []func(report func(name string, value float64))
}

// pair is a queue and a kind.
type pair struct{ queue, kind string }

// series are the metrics of one pair of label values, found once.
type series struct {
	pair
	enqueued, claimed, lost prometheus.Counter
	waits, runs             prometheus.Observer
	attempts                map[string]prometheus.Counter // counters by outcome; process.mu guards the map
}

// These are the upper bounds of the buckets, in seconds.
var (
	waitBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600}
	runBuckets  = []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	callBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

func newProcess() *process {
	job := []string{"queue", "kind"}
	return &process{
		enqueued: counter("dibs_enqueued_jobs_total", "Jobs that this process has enqueued, also in transactions that may have been rolled back.", job...),
		claimed:  counter("dibs_claimed_jobs_total", "Jobs that the workers of this process, or the clients of its server, have claimed.", job...),
		attempts: counter("dibs_attempts_total", "Attempts of the workers of this process that have ended, by outcome.", append(job, "outcome")...),
		lost:     counter("dibs_lost_leases_total", "Handlers of this process that were told to stop, as their job's lease was lost or about to end.", job...),
		waits:    histogram("dibs_job_wait_seconds", "Time from the start that a job was planned for to its claim by this process.", waitBuckets, job...),
		runs:     histogram("dibs_job_run_seconds", "How long handlers of this process ran.", runBuckets, job...),

		calls:   histogram("dibs_store_call_seconds", "Duration of this process' calls to the database.", callBuckets, "call"),
		errors:  counter("dibs_store_call_errors_total", "Calls of this process to the database that have failed, by the sort of error.", "call", "error"),
		batches: histogram("dibs_store_batch_calls", "How many calls of this process' goroutines went to the database together.", []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}, "call"),

		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dibs_worker_running_handlers", Help: "Handlers of this process that are running."}),
		places:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "dibs_worker_concurrency", Help: "How many handlers the workers of this process run at once, at most."}),

		queues: newNames(maxQueues),
		kinds:  newNames(maxKinds),
		series: map[pair]*series{},
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histogram has the buckets, and native ones for a server that asks for those.
func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.2, NativeHistogramMaxBucketNumber: 80, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func (p *process) collectors() []prometheus.Collector {
	return []prometheus.Collector{p.enqueued, p.claimed, p.attempts, p.lost, p.waits, p.runs, p.calls, p.errors, p.batches, p.running, p.places}
}

// Describe implements prometheus.Collector.
func (p *process) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range p.collectors() {
		c.Describe(ch)
	}
	for _, f := range figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (p *process) Collect(ch chan<- prometheus.Metric) {
	for _, c := range p.collectors() {
		c.Collect(ch)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, read := range p.figures {
		read(func(name string, value float64) {
			if f, known := figures[name]; known {
				ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, f.labels...)
			}
		})
	}
}

// figure is a metric whose value the store itself provides.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
}

var poolConnections = prometheus.NewDesc("dibs_pool_connections", "Connections of this process' pool, by what they do.", []string{"state"}, nil)

var settledFollowers = prometheus.NewDesc("dibs_settled_followers_total", "Jobs that waited for others, and that this process has released, as these had ended, or cancelled, as they could never start.", []string{"outcome"}, nil)

// figures are the metrics whose values a store provides, by the store's names for them.
var figures = map[string]figure{
	"pool_max_connections":           {prometheus.NewDesc("dibs_pool_max_connections", "How many connections this process' pool may have.", nil, nil), prometheus.GaugeValue, nil},
	"pool_used_connections":          {poolConnections, prometheus.GaugeValue, []string{"used"}},
	"pool_idle_connections":          {poolConnections, prometheus.GaugeValue, []string{"idle"}},
	"pool_opening_connections":       {poolConnections, prometheus.GaugeValue, []string{"opening"}},
	"pool_acquires":                  {prometheus.NewDesc("dibs_pool_acquires_total", "How often a connection of this process' pool was taken.", nil, nil), prometheus.CounterValue, nil},
	"pool_waits":                     {prometheus.NewDesc("dibs_pool_waits_total", "How often a call waited for a connection of this process' pool, as none was idle.", nil, nil), prometheus.CounterValue, nil},
	"pool_wait_seconds":              {prometheus.NewDesc("dibs_pool_wait_seconds_total", "How long calls waited for connections of this process' pool, in all.", nil, nil), prometheus.CounterValue, nil},
	"followers_released":             {settledFollowers, prometheus.CounterValue, []string{"released"}},
	"followers_cancelled":            {settledFollowers, prometheus.CounterValue, []string{"cancelled"}},
	"marked_queues":                  {prometheus.NewDesc("dibs_marked_queues", "Queues whose claims by this process begin at marks, as long transactions on the server slow them down.", nil, nil), prometheus.GaugeValue, nil},
	"marks_passed_over_transactions": {prometheus.NewDesc("dibs_marks_passed_over_transactions", "Long transactions on the server that the marks of this process have passed over.", nil, nil), prometheus.GaugeValue, nil},
}

// watch counts the jobs that are enqueued into a database, and collects the figures of its store.
func (p *process) watch(db admin.Database) {
	if s, ok := db.(interface {
		Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc)
	}); ok {
		s.Use(p.enqueue)
	}
	if s, ok := db.(interface {
		ObserveBatches(f func(call string, calls int))
	}); ok {
		s.ObserveBatches(func(call string, calls int) { p.batches.WithLabelValues(call).Observe(float64(calls)) })
	}
	if s, ok := db.(interface {
		Figures(report func(name string, value float64))
	}); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.figures = append(p.figures, s.Figures)
	}
}

// of returns the series of a job. mu must be held.
func (p *process) of(queue, kind string) *series {
	at := pair{p.queues.label(queue), p.kinds.label(kind)}
	s := p.series[at]
	if s != nil {
		return s
	}
	if len(p.series) >= maxPairs {
		if at = (pair{other, other}); p.series[at] != nil {
			return p.series[at]
		}
	}
	s = &series{pair: at, attempts: map[string]prometheus.Counter{}}
	p.series[at] = s
	return s
}

// enqueuedOf returns the series of an enqueued job. mu must be held, also for the next two functions.
func (p *process) enqueuedOf(queue, kind string) *series {
	s := p.of(queue, kind)
	if s.enqueued == nil {
		s.enqueued = p.enqueued.WithLabelValues(s.queue, s.kind)
	}
	return s
}

// claimedOf returns the series of a job that is claimed.
func (p *process) claimedOf(queue, kind string) *series {
	s := p.of(queue, kind)
	if s.claimed == nil {
		s.claimed, s.waits = p.claimed.WithLabelValues(s.queue, s.kind), p.waits.WithLabelValues(s.queue, s.kind)
	}
	return s
}

// workedOf returns the series of a worker's job. A process without workers has no such series: it does not
// know how attempts end, and zeros would say that none ends.
func (p *process) workedOf(queue, kind string) *series {
	s := p.claimedOf(queue, kind)
	if s.runs != nil {
		return s
	}
	s.lost, s.runs = p.lost.WithLabelValues(s.queue, s.kind), p.runs.WithLabelValues(s.queue, s.kind)
	for _, outcome := range []dibs.Ending{dibs.EndCompleted, dibs.EndRetry, dibs.EndDead} { // begin at 0, so that the first outcome shows as a rise
		p.ended(s, string(outcome))
	}
	return s
}

// ended returns the counter of an outcome. mu must be held.
func (p *process) ended(s *series, outcome string) prometheus.Counter {
	c := s.attempts[outcome]
	if c == nil {
		c = p.attempts.WithLabelValues(s.queue, s.kind, outcome)
		s.attempts[outcome] = c
	}
	return c
}
