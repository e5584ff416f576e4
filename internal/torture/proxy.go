package torture

import (
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

// holdBack is how long an answer is held back before its connection is closed: until
// then the server has done what it was asked, commit included.
const holdBack = 20 * time.Millisecond

// proxy stands between the processes of one seat and the server, so that their
// connections can be cut. It reads nothing of what it passes on, and so works with
// TLS too.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	links    sync.WaitGroup
	cuts     chan chan struct{} // a cut that waits for its victim, which closes the inner one
}

// newProxy makes a proxy to the server that rawURL names, and the URL by which to
// use it, with so many connections in a pool.
func newProxy(rawURL string, pool int) (*proxy, string, error) {
	config, err := pgconn.ParseConfig(rawURL)
	if err != nil {
		return nil, "", err
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	p := &proxy{
		listener: l,
		dial:     func() (net.Conn, error) { return net.DialTimeout(network, address, 5*time.Second) },
		cuts:     make(chan chan struct{}),
	}
	p.links.Go(p.accept)
	through, err := throughProxy(rawURL, config, l.Addr().String(), pool)
	return p, through, err
}

// throughProxy is rawURL by way of a proxy. The password may have come from elsewhere
// (.pgpass, PGPASSWORD), where it belongs to the server's own address.
func throughProxy(rawURL string, config *pgconn.Config, address string, pool int) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("pool_max_conns", strconv.Itoa(pool))
	u.Host, u.RawQuery = address, strings.ReplaceAll(query.Encode(), "+", "%20") // to drivers a + is no blank
	u.User = url.UserPassword(config.User, config.Password)
	return u.String(), nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.links.Go(func() { p.link(client) })
	}
}

// link passes one connection on, both ways, until either side closes it or it is cut.
func (p *proxy) link(client net.Conn) {
	defer client.Close()
	server, err := p.dial()
	if err != nil {
		return // as if the server had refused the client
	}
	var asked atomic.Bool // since the last answer
	go func() {
		defer server.Close()
		pass(server, client, func() bool { asked.Store(true); return true })
	}()
	defer server.Close()
	pass(client, server, func() bool {
		if !asked.Swap(false) {
			return true // not an answer: a notification, or the rest of a long one
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

// pass copies until a side closes its connection or goOn, asked before each write,
// says no.
func pass(to, from net.Conn, goOn func() bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !goOn() {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cut waits for the next answer on any connection, holds it back, and closes the
// connection. It reports false if ctx ended before there was one.
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

// close ends the proxy; the processes have ended, so its connections do too.
func (p *proxy) close() {
	_ = p.listener.Close() // nothing is left to be done about it
	p.links.Wait()
}
