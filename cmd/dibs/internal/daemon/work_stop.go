package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/server"
	"github.com/prometheus/client_golang/prometheus"
)

// healthServer tells supervisors over HTTP how the worker is, and Prometheus what it does.
type healthServer struct {
	server  *http.Server                // nil: nobody asked for one
	worker  atomic.Pointer[dibs.Worker] // nil until the database is open
	ended   atomic.Bool                 // its Run has returned
	metrics *prometheus.Registry
}

// healthWait is how long a worker may take to answer.
const healthWait = 5 * time.Second

// serveHealth listens before the database is open, which may take a while: --listen.
func (a *app) serveHealth(ctx context.Context, f *workFlags) (*healthServer, error) {
	h := &healthServer{}
	if f.listen == "" {
		return h, nil
	}
	log := a.Logger(f.verbose)
	tokens, err := readTokens(ctx, log, f.tokens)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	h.metrics = newRegistry()
	o := server.Options{Log: log, Tokens: tokens, Metrics: metricsPage(h.metrics)}
	open := tokens == nil && !f.insecure
	if open { // programs of this machine may look, but neither web pages nor a proxy
		o.Hosts, o.NoProxy = []string{"localhost"}, true
	}
	pages := http.NewServeMux()
	pages.Handle("GET /healthz", h.page(nil, h.live))
	pages.Handle("GET /readyz", h.page(errors.New("the database is not open yet"), (*dibs.Worker).Ready))
	if open && !isLocal(listener.Addr()) {
		pages.HandleFunc("GET /metrics", func(out http.ResponseWriter, _ *http.Request) {
			http.Error(out, "this port can be reached from other machines: start 'dibs work' with --tokens, or with --insecure", http.StatusForbidden)
		})
	} else {
		pages.Handle("GET /metrics", server.New(nil, o))
	}
	h.server = &http.Server{Handler: pages, ReadHeaderTimeout: healthWait}
	said := "serving /healthz, /readyz and /metrics"
	if open && !isLocal(listener.Addr()) {
		said = "serving /healthz and /readyz; /metrics wants --tokens or --insecure"
	}
	log.Info(said, "address", listener.Addr().String())
	go func() { _ = h.server.Serve(listener) }() // Serve returns when close is called
	return h, nil
}

// live is [dibs.Worker.Live], but for a worker that is about to run: the process is well.
func (h *healthServer) live(w *dibs.Worker, ctx context.Context) error {
	ended := h.ended.Load() // Read before the database is asked: the job may run and end meanwhile.
	err := w.Live(ctx)
	if ctx.Err() == nil && !ended { // it has answered, or it does not run yet
		return nil
	}
	return err
}

// page answers with the status of what ask returns, and opening until there is a worker.
func (h *healthServer) page(opening error, ask func(*dibs.Worker, context.Context) error) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		ctx, cancel := context.WithTimeout(in.Context(), healthWait)
		defer cancel()
		err := opening
		if w := h.worker.Load(); w != nil {
			err = ask(w, ctx)
		}
		if err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = out.Write([]byte("ok\n")) // the client may have gone
	})
}

func (h *healthServer) close() {
	if h.server != nil {
		_ = h.server.Close() // the process ends
	}
}
