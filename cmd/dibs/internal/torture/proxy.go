package torture

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// holdBack is how long an answer is held back before its connection is closed. In this time
// the server finishes the statement, or the commit.
const holdBack = 20 * time.Millisecond

// proxy stands between the processes of one seat and the server, so that their connections
// can be cut. It does not interpret the bytes that it passes on, so it works with TLS too.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	links    sync.WaitGroup
	cuts     chan chan struct{} // cuts that wait for an answer; its connection closes the inner channel
}

// newProxy starts a proxy to the server that rawURL names. It returns the URL through the
// proxy, which also sets the size of the pool.
func newProxy(rawURL string, pool int) (*proxy, string, error) {
	of, err := originOf(rawURL)
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	p := &proxy{
		listener: l,
		dial:     func() (net.Conn, error) { return net.DialTimeout(of.network, of.address, 5*time.Second) },
		cuts:     make(chan chan struct{}),
	}
	p.links.Go(p.accept)
	through, err := throughProxy(rawURL, of.user, l.Addr().String(), pool)
	return p, through, err
}

// origin is where a URL leads, and as whom.
type origin struct {
	network, address string
	user             *url.Userinfo
}

func originOf(rawURL string) (origin, error) {
	port := ""
	switch {
	case isMariaDB(rawURL):
		port = "3306"
	case isSQLServer(rawURL):
		port = "1433"
	}
	if port != "" {
		u, err := url.Parse(rawURL)
		if err != nil {
			return origin{}, err
		}
		return origin{"tcp", net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), port)), u.User}, nil
	}
	config, err := pgconn.ParseConfig(rawURL)
	if err != nil {
		return origin{}, err
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	return origin{network, address, url.UserPassword(config.User, config.Password)}, nil
}

// throughProxy returns rawURL with the proxy's address. It adds the user with the password, since
// .pgpass may hold that only for the server's own address.
func throughProxy(rawURL string, user *url.Userinfo, address string, pool int) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("pool_max_conns", strconv.Itoa(pool))
	if isSQLServer(rawURL) && !query.Has("hostNameInCertificate") {
		query.Set("hostNameInCertificate", u.Hostname()) // the certificate is the server's, not the proxy's
	}
	u.Host, u.RawQuery = address, strings.ReplaceAll(query.Encode(), "+", "%20") // drivers do not read + as a space
	u.User = user
	return u.String(), nil
}

// withPool returns rawURL with a limit of a store's connections.
func withPool(rawURL string, pool int) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Set("pool_max_conns", strconv.Itoa(pool))
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String(), nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.links.Go(func() { p.link(client) })
	}
}

// link passes one connection on in both directions, until either side closes it or it is cut.
func (p *proxy) link(client net.Conn) {
	defer client.Close()
	server, err := p.dial()
	if err != nil {
		return // the client sees a closed connection, as if the server had refused it
	}
	var awaitingAnswer atomic.Bool // the client has sent something since the last answer
	go func() {
		defer server.Close()
		copyBytes(server, client, func() bool { awaitingAnswer.Store(true); return true })
	}()
	defer server.Close()
	copyBytes(client, server, func() bool {
		if !awaitingAnswer.Swap(false) {
			return true // a notification, or the rest of a long answer
		}
		select {
		case victim := <-p.cuts:
			time.Sleep(holdBack)
			close(victim)
			return false
		default:
			return true
		}
	})
}

// copyBytes copies until one side closes its connection, or until mayPass, which it calls before
// each write, returns false.
func copyBytes(to, from net.Conn, mayPass func() bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !mayPass() {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cut waits for the next answer on any connection, holds it back, and closes the connection.
// It returns false if ctx ends before an answer comes.
func (p *proxy) cut(ctx context.Context) bool {
	victim := make(chan struct{})
	select {
	case p.cuts <- victim:
		<-victim
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the proxy. Its connections have ended with the processes.
func (p *proxy) close() {
	_ = p.listener.Close() // an error changes nothing
	p.links.Wait()
}
