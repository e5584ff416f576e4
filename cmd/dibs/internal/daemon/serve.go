package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/dibs-queue/dibs/metrics"
	"github.com/dibs-queue/dibs/server"
	"github.com/spf13/cobra"
)

// serveFlags holds the flags of 'dibs serve'.
type serveFlags struct {
	listen   string
	tokens   string
	insecure bool
	cert     string
	key      string
	hosts    []string
	limits   server.Limits
	pool     int
	shutdown cmdline.DurationFlag
	verbose  bool
}

const serveHelp = `Serve jobs and queues over HTTP, as JSON, to programs in any language: enqueue, claim with
a wait, extend, finish, and most of what the other commands do. /openapi.json describes the
calls, and docs/howto/http.md shows them. Any number of processes may serve one database.

--listen is ADDRESS:PORT, or unix:PATH for a socket, which whoever may write to its file can
use. With port 0 the system chooses one. /healthz is good (status 200) while the process
serves, /readyz while the database answers and leases are ended in time, too. /metrics is for
Prometheus, and needs a token with the scope read for all queues if tokens are used.

With --table it shows an adopted table: its page, its rows and counts, and metrics of them. Dead
rows of its side table can be requeued; all else is refused, as its workers and SQL do that.

Without tokens everybody who reaches the server may do everything. So it listens on the
loopback address by default, and elsewhere only with tokens, or with --insecure. Tokens come
from the file --tokens, or from $DIBS_TOKENS, with a line for each: a name, the token or its
hash, and what it may do.

    mailer  sha256:9f86d081…  enqueue:mail,news  read
    boss    sha256:60303ae2…  admin

The scopes are enqueue, work (claim, extend and finish), read, and admin, which has the others
in it. After a colon stand the only queues that a scope is for. 'dibs serve token' makes a
token and its line. Clients send it in the header Authorization: Bearer TOKEN.

The files of the tokens and of TLS are read again when they change. A mistake in them is
logged, and what was read before stays.

Requests that a browser sends for pages of other origins are refused. So is a header Host that
is neither an address in digits, nor localhost, nor a --host; and, without tokens, a request
with a header such as X-Forwarded-For. Not every proxy adds one: put none before a server
without tokens.

On SIGINT or SIGTERM no more connections are taken, clients that wait get their answer, and
requests in progress have --shutdown to end. The exit code is 0. A second signal breaks them
off; the exit code is then 130. The same signal again within half a second is taken for the
first one.`

func newServeCmd(a *app) *cobra.Command {
	f := serveFlags{shutdown: cmdline.DurationFlag(15 * time.Second)}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve jobs and queues over HTTP",
		Long:  serveHelp,
		Example: `  dibs serve
  dibs serve token mailer --scope enqueue:mail --tokens tokens.txt
  dibs serve --listen :7070 --tokens tokens.txt --host queue.example.com \
    --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, &f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7070", "`ADDRESS` to listen on")
	fs.StringVar(&f.tokens, "tokens", "", "`FILE` of the tokens; default: those of $DIBS_TOKENS")
	fs.BoolVar(&f.insecure, "insecure", false, "serve everybody who reaches it, without tokens")
	fs.StringArrayVar(&f.hosts, "host", nil, "`NAME` by which clients call it; may be given again")
	fs.StringVar(&f.cert, "tls-cert", "", "serve HTTPS, with the certificates of this `FILE`")
	fs.StringVar(&f.key, "tls-key", "", "`FILE` of their private key")
	fs.Int64Var(&f.limits.Body, "max-body", 32<<20, "`BYTES` of one request's body")
	fs.Int64Var(&f.limits.Bodies, "max-bodies", 128<<20, "`BYTES` of all bodies at one moment")
	fs.Int64Var(&f.limits.Answers, "max-answers", 256<<20, "`BYTES` of all answers with jobs at one moment")
	fs.IntVar(&f.limits.Queues, "max-queues", 10_000, "queues there may be for a request to make another")
	fs.IntVar(&f.limits.Requests, "max-requests", 1000, "requests served at once, besides those that wait")
	fs.IntVar(&f.limits.Waiting, "max-waiting", 10_000, "requests that wait at once")
	fs.IntVar(&f.limits.Streams, "max-streams", 256, "streams of jobs open at once")
	fs.IntVar(&f.limits.Connections, "max-connections", 20_000, "connections open at once")
	fs.IntVar(&f.pool, "pool", 10, "connections to PostgreSQL")
	fs.Var(&f.shutdown, "shutdown", "how long to wait for requests in progress at the end")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "log every request, not only slow and failed ones")
	cmd.AddCommand(newServeTokenCmd(a))
	return cmd
}

// check checks what the server does not.
func (f *serveFlags) check(cmd *cobra.Command) error {
	for name, n := range map[string]int64{
		"max-body": f.limits.Body, "max-bodies": f.limits.Bodies, "max-answers": f.limits.Answers, "max-queues": int64(f.limits.Queues), "max-requests": int64(f.limits.Requests),
		"max-waiting": int64(f.limits.Waiting), "max-streams": int64(f.limits.Streams), "max-connections": int64(f.limits.Connections), "pool": int64(f.pool),
	} {
		if n < 1 {
			return cmdline.Usagef(cmd, "--%s must be at least 1, got %d", name, n)
		}
	}
	switch {
	case f.shutdown < 0:
		return cmdline.Usagef(cmd, "--shutdown must not be negative")
	case (f.cert == "") != (f.key == ""):
		return cmdline.Usagef(cmd, "--tls-cert and --tls-key belong together")
	}
	return nil
}

// serve serves until the command's context ends.
func (a *app) serve(cmd *cobra.Command, f *serveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx, log := cmd.Context(), a.Logger(f.verbose)
	watched, stop := context.WithCancel(ctx)
	defer stop()
	tokens, err := readTokens(watched, log, f.tokens)
	if err != nil {
		return cmdline.Usagef(cmd, "%w", err)
	}
	var config *tls.Config
	if f.cert != "" {
		if config, err = f.readCertificate(watched, log); err != nil {
			return cmdline.Usagef(cmd, "--tls-cert: %w", err)
		}
	}
	listener, err := listen(ctx, f.listen)
	if err != nil {
		return cmdline.Usagef(cmd, "--listen: %w", err)
	}
	defer listener.Close()
	local := isLocal(listener.Addr())
	switch {
	case !local && tokens == nil && !f.insecure:
		return cmdline.Usagef(cmd, "--listen %s can be reached from other machines: make a token with 'dibs serve token' and name its file with --tokens, or serve everybody with --insecure", f.listen)
	case !local && config == nil:
		log.Warn("tokens and payloads cross the network as they are: use --tls-cert and --tls-key, or a proxy that does", "address", listener.Addr().String())
	}
	registry := newRegistry()
	o := server.Options{
		Log: log, Tokens: tokens, Hosts: append([]string{"localhost"}, f.hosts...), NoProxy: tokens == nil && !f.insecure, Limits: f.limits,
		Metrics: metricsPage(registry),
	}
	a.Conns = f.pool
	return cmdline.Connect(ctx, cmdline.Waiting{Log: log, NotListening: true}, a.openToServe, func(db admin.Database) error {
		cmdline.SetLog(db, log)
		a.LogDatabase(log)
		db, err := metrics.Observe(registry, db)
		if err != nil {
			return err
		}
		api := server.New(db, o)
		web := api.HTTPServer()
		web.TLSConfig = config
		a.sayServing(f, listener.Addr(), tokens != nil)
		return a.serveUntil(ctx, f, log, web, listener, api)
	})
}

// serveUntil serves until ctx ends, and then until the requests in progress have been answered.
func (a *app) serveUntil(ctx context.Context, f *serveFlags, log *slog.Logger, web *http.Server, listener net.Listener, api *server.Server) error {
	now, stopNow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNow()
	forced := make(chan struct{})
	cmdline.SecondSignal(now, func() {
		close(forced)
		_ = web.Close() // the process ends
	})
	ended := make(chan error, 1)
	go func() {
		if web.TLSConfig != nil {
			ended <- web.ServeTLS(listener, "", "")
			return
		}
		ended <- web.Serve(listener)
	}()
	select {
	case err := <-ended:
		return errors.Join(err, api.Close())
	case <-ctx.Done():
	}
	log.Info("server stopping", "reason", context.Cause(ctx).Error(), "wait", time.Duration(f.shutdown))
	wait, cancel := context.WithTimeout(now, time.Duration(f.shutdown))
	defer cancel()
	web.RegisterOnShutdown(func() { _ = api.Close() }) // it returns no error; those who wait are answered
	if err := web.Shutdown(wait); err != nil {
		_ = web.Close() // the process ends
	}
	err := api.Close()
	select {
	case <-forced:
		return &cmdline.CodeError{Code: cmdline.ExitInterrupted, Err: errors.Join(fmt.Errorf("%w; requests in progress were broken off", cmdline.ErrSecondSignal), err)}
	default:
		return err
	}
}

// sayServing tells where the server is, and what can be tried there.
func (a *app) sayServing(f *serveFlags, address net.Addr, tokens bool) {
	scheme, curl, place := "http", "curl", address.String()
	if f.cert != "" {
		scheme = "https"
	}
	switch at := address.(type) {
	case *net.UnixAddr:
		curl, place = "curl --unix-socket "+words.ShellWord(at.Name), "localhost"
	case *net.TCPAddr:
		if at.IP.IsUnspecified() {
			host := "localhost"
			if len(f.hosts) > 0 {
				host = f.hosts[0]
			}
			place = net.JoinHostPort(host, fmt.Sprint(at.Port))
		}
	}
	url := scheme + "://" + place
	if a.JSON {
		a.Tell(struct {
			URL     string `json:"url"`
			Address string `json:"address"`
		}{url, address.String()})
		return
	}
	if tokens {
		curl += ` -H "Authorization: Bearer $TOKEN"`
	}
	if a.Adopted != nil {
		a.Say("showing the table %s of %s on %s", a.Adopted.Mapping.Table, a.URL(), url)
		return
	}
	a.Say("serving %s on %s; try:", a.URL(), url)
	a.Say("  %s -H 'Content-Type: application/json' -d '{\"queue\":\"emails\",\"payload\":\"hello\"}' %s/v1/jobs", curl, url)
	a.Say("  %s %s/v1/stats", curl, url)
	switch _, socket := address.(*net.UnixAddr); {
	case socket: // no browser opens it
	case tokens:
		a.Say("  in a browser: %s (it asks for a token)", url)
	default:
		a.Say("  in a browser: %s", url)
	}
}

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// listen listens on an address. The file of a Unix socket that nobody listens on any more is replaced.
func listen(ctx context.Context, address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if !isUnix {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if c, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
			_ = c.Close() // the connection has shown that a server listens there
			return nil, fmt.Errorf("another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}

// isLocal reports whether only programs of this machine reach an address.
func isLocal(address net.Addr) bool {
	switch at := address.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// logReread tells what became of a file that has changed.
func logReread(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Error(what+" has changed and cannot be read; what was read before stays", "error", err.Error())
		return
	}
	log.Info(what + " has changed and was read again")
}
