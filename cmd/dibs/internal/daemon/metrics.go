package daemon

import (
	"net/http"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newRegistry is a registry for the metrics of this process, with those of Go and of the system.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metricsPage serves a registry. If a part of it cannot be collected, it serves the rest.
func metricsPage(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
}

// observe measures a worker and its database, if the metrics are served. An adopted table has no statistics that
// could be had without reading all of its rows.
func (h *healthServer) observe(db cmdline.JobTable, w *dibs.Worker) error {
	if h.server == nil {
		return nil
	}
	own, _ := db.(admin.Database)
	return metrics.Register(h.metrics, own, w)
}
