package server

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// refusalTime is how long the server goes on to read the body of a request that it has refused.
const refusalTime = 2 * time.Second

// guard runs before every route: it names and logs the request. It refuses requests from web pages
// of other origins, from too many clients, and from a proxy if there must be none.
func (s *Server) guard(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request)) {
	a := newAnswer(w, r)
	a.room = room{all: &s.answers, limit: s.Limits.Answers}
	defer a.room.end()
	e := &entry{id: requestID(r), start: time.Now(), answer: a}
	r = r.WithContext(context.WithValue(r.Context(), entryKey{}, e))
	a.Header().Set(requestHeader, e.id)
	defer s.record(e, a, r)
	defer s.recovered(a, r)
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		_ = a.control.SetReadDeadline(time.Now().Add(refusalTime)) // a route that reads the body sets another deadline
	}
	if over, _ := r.Context().Value(overKey{}).(bool); over {
		a.Header().Set("Connection", "close")
		s.fail(a, r, busy("too many connections are open"))
		return
	}
	if err := s.checkSource(r); err != nil {
		s.fail(a, r, err)
		return
	}
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" { // probes are answered however many requests are being served
		next(a, r)
		return
	}
	if err := s.admit(e, r); err != nil {
		s.fail(a, r, err)
		return
	}
	defer func() { e.served() }()
	next(a, r)
}

// enter runs between a route and its handler. It checks what the caller may do, and limits what the client may
// send. Its caller calls leave after the handler.
func (s *Server) enter(rt route, w http.ResponseWriter, r *http.Request) (_ *http.Request, leave func(), err error) {
	if r, err = s.authorize(rt, r); err != nil {
		return r, nil, err
	}
	e := entryOf(r)
	e.answer.reads = rt.method == http.MethodGet
	if rt.waits || rt.streamed {
		e.long = true
		e.answer.patient()
	}
	leave, err = s.openBody(rt, w, r)
	return r, leave, err
}

// proxyHeaders are what proxies add to requests. Some add none.
var proxyHeaders = []string{
	"Forwarded", "Via", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server",
	"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Original-Host", "X-Envoy-External-Address",
	"Cf-Connecting-Ip", "Cf-Ray", "Fastly-Client-Ip", "Fly-Client-Ip", "True-Client-Ip", "X-Amzn-Trace-Id", "X-Azure-Clientip", "X-Cloud-Trace-Context",
}

// crossOrigin refuses what browsers send for the pages of other origins.
var crossOrigin http.CrossOriginProtection

// checkSource refuses requests that a browser sends for a web page of another origin, whatever their method.
// It also refuses those whose Host may be a name of such a page (DNS rebinding).
func (s *Server) checkSource(r *http.Request) error {
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		return nil // their answers hold no secrets, and probes may send any Host
	}
	if err := s.checkHost(r); err != nil {
		return err
	}
	// The check lets GET pass. Here another origin's page may not read either, so the method is set to POST.
	if isVisit(r) {
		return nil
	}
	if err := crossOrigin.Check(&http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}); err != nil {
		return &problemError{kind: forbidden, detail: "the request comes from a web page of another origin"}
	}
	for _, name := range proxyHeaders {
		if s.NoProxy && len(r.Header.Values(name)) > 0 {
			return &problemError{kind: forbidden, detail: "the request comes through a proxy, and this server takes requests without a token: start it with tokens"}
		}
	}
	return nil
}

// checkHost refuses a Host that is not one of the server's names. An address in digits is allowed, since no other page
// has it as its name.
func (s *Server) checkHost(r *http.Request) error {
	if len(s.Hosts) == 0 {
		return nil
	}
	name := strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), ".")
	if address, err := netip.ParseAddr(name); err == nil && (address.Zone() == "" || address.IsLinkLocalUnicast()) || strings.EqualFold(name, "localhost") {
		return nil
	}
	if slices.ContainsFunc(s.Hosts, func(host string) bool { return strings.EqualFold(host, name) }) {
		return nil
	}
	return &problemError{kind: misdirected, detail: fmt.Sprintf("the header Host says %.100q, which is none of this server's names: give it as --host, or call the server by another name", name)}
}
