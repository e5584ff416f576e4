//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// serving is a process of dibs serve.
type serving struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
	log *guardedBuffer
	got object // what it printed
}

// serveProcess starts dibs serve, and reads where it listens.
func (c *cli) serveProcess(env []string, args ...string) *serving {
	c.t.Helper()
	return c.serveProcessBy(func(*testing.T, *exec.Cmd) {}, env, args...)
}

// serveProcessBy is serveProcess, with a change of how it is started.
func (c *cli) serveProcessBy(change func(*testing.T, *exec.Cmd), env []string, args ...string) *serving {
	c.t.Helper()
	cmd := c.command(append([]string{"serve", "--json", "-v"}, args...)...)
	change(c.t, cmd)
	cmd.Env = append(cmd.Env, env...)
	s := &serving{t: c.t, cmd: cmd, log: &guardedBuffer{}}
	cmd.Stderr = s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.t.Fatalf("dibs serve %q: %v %s", args, err, s.log.String())
	}
	s.got = c.row(line)
	s.url, _ = s.got["url"].(string)
	return s
}

// end waits for the process, and returns its exit code.
func (s *serving) end() int {
	s.t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.cmd.Wait() // its exit code says how
	}()
	select {
	case <-over:
	case <-time.After(patience):
		s.t.Errorf("dibs serve does not end: %s", s.log.String())
		_ = s.cmd.Process.Kill()
		<-over
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *serving) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// ask sends a request. 0 stands for no answer.
func ask(t *testing.T, client *http.Client, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.Set("Content-Type", "application/json"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// A client that waits gets its answer, one that is served its own, and no new one is taken.
func TestServeEndsWhenItIsAskedTo(t *testing.T) {
	onEach(t, func(c *cli) {
		s := c.serveProcess(nil, "--listen", "127.0.0.1:0")
		if status, text := ask(c.t, http.DefaultClient, "POST", s.url+"/v1/jobs", "", `{"queue":"q","payload":1}`); status != http.StatusCreated {
			c.t.Fatalf("%d %s", status, text)
		}
		if got := c.stats("q"); got["waiting"] != 1.0 {
			c.t.Errorf("the queue has %v", got)
		}
		waited := make(chan string)
		go func() {
			status, text := ask(c.t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "POST", s.url+"/v1/claim", "", `{"queue":"none","worker":"w","wait":60}`)
			waited <- fmt.Sprint(status, " ", text)
		}()
		s.said("/v1/jobs")
		time.Sleep(200 * time.Millisecond) // the claim should wait by then; if not, it is refused, which is as good
		s.signal(syscall.SIGTERM)
		s.signal(syscall.SIGTERM) // timeout(1) sends two: they count as one
		if code := s.end(); code != exitOK {
			c.t.Errorf("exit code %d: %s", code, s.log.String())
		}
		if got := <-waited; got != "200 {\"jobs\":[]}\n" && !strings.HasPrefix(got, "503") && !strings.HasPrefix(got, "0 ") {
			c.t.Errorf("the client that waited got %s", got)
		}
		if status, text := ask(c.t, http.DefaultClient, "GET", s.url+"/healthz", "", ""); status != 0 {
			c.t.Errorf("it still serves: %d %s", status, text)
		}
	})
}

// said waits for words in the log.
func (s *serving) said(words string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.log.String(), words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it never says %q: %s", words, s.log.String())
		}
	}
}

func TestASecondSignalBreaksOffRequests(t *testing.T) {
	c := onSQLite(t)
	s := c.serveProcess(nil, "--listen", "127.0.0.1:0", "--shutdown", "1h")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil { // the rest never comes
		t.Fatal(err)
	}
	if status, _ := ask(t, http.DefaultClient, "GET", s.url+"/v1/stats", "", ""); status != 200 {
		t.Fatal(status)
	}
	s.signal(syscall.SIGTERM)
	for status := 200; status != 0; { // It serves until it has heard the signal.
		status, _ = ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", s.url+"/healthz", "", "")
	}
	time.Sleep(700 * time.Millisecond) // sooner it would count as the first
	if s.cmd.ProcessState != nil {
		t.Error("it has ended although a request is in progress")
	}
	s.signal(syscall.SIGTERM)
	if code := s.end(); code != exitInterrupted || !strings.Contains(s.log.String(), "dibs: stopped by a second signal") {
		t.Errorf("exit code %d: %s", code, s.log.String())
	}
}

// Tokens are taken and given while the server runs. Nothing that it prints holds one.
func TestServeReadsItsTokensAgain(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	file := filepath.Join(t.TempDir(), "tokens.txt")
	first := strings.TrimSpace(c.ok("serve", "token", "first", "--scope", "read", "--tokens", file))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	s := c.serveProcess(nil, "--listen", "0.0.0.0:0", "--tokens", file)
	_, port, err := net.SplitHostPort(s.got["address"].(string))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port
	get := func(token string) int {
		status, _ := ask(t, http.DefaultClient, "GET", url+"/v1/stats", token, "")
		return status
	}
	if a, b, none := get(first), get("wrong-"+first), get(""); a != 200 || b != 401 || none != 401 {
		t.Fatalf("%d with the token, %d with a wrong one, %d without", a, b, none)
	}
	second := strings.TrimSpace(c.ok("serve", "token", "second", "--scope", "read", "--tokens", file))
	becomes := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s; %s", what, s.log.String())
			}
		}
	}
	becomes("the second token is good", func() bool { return get(second) == 200 })
	if err := os.WriteFile(file, []byte("broken "+first+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.said("cannot be read")
	if get(first) != 200 || get(second) != 200 {
		t.Error("a mistake in the file has taken tokens away")
	}
	text := "second 12345678901234567890 read\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	becomes("the first token is taken away", func() bool { return get(first) == 401 && get(second) == 401 && get("12345678901234567890") == 200 })
	s.signal(syscall.SIGINT)
	if code := s.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	log := s.log.String()
	for _, secret := range []string{first, second, "12345678901234567890"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %s: %s", secret, log)
		}
	}
	for _, words := range []string{"everybody on this machine can read", "cross the network as they are", `"token":"first"`, "line 1: "} {
		if !strings.Contains(log, words) {
			t.Errorf("the log lacks %q: %s", words, log)
		}
	}
}

// certificate writes a new key and certificate, and returns what trusts it.
func certificate(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "queue"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: raw}, cert: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(made)
	return pool
}

func TestServeServesHTTPSAndReadsARenewedCertificate(t *testing.T) {
	c := onSQLite(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := certificate(t, cert, key, 1)
	s := c.serveProcess([]string{"DIBS_TOKENS=boss 12345678901234567890 admin"}, "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	get := func(roots *x509.CertPool, most uint16) (int, int) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MaxVersion: most}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer 12345678901234567890")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return 0, 0
		}
		defer answer.Body.Close()
		return answer.StatusCode, answer.ProtoMajor
	}
	if status, proto := get(trusted, tls.VersionTLS13); status != 200 || proto != 2 || !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("%d over HTTP/%d at %s: %s", status, proto, s.url, s.log.String())
	}
	if status, _ := get(trusted, tls.VersionTLS11); status != 0 {
		t.Error("TLS 1.1 is taken")
	}
	renewed := certificate(t, cert, key, 2)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := get(renewed, tls.VersionTLS13); status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the renewed certificate is not used: %s", s.log.String())
		}
	}
}

func TestServeListensOnAUnixSocket(t *testing.T) {
	c := onSQLite(t)
	dir, err := os.MkdirTemp("", "dibs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	s := c.serveProcess(nil, "--listen", "unix:"+path)
	if status, text := ask(t, client, "GET", "http://localhost/v1/stats", "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	c.fails(exitUsage, "", []string{"serve", "--listen", "unix:" + path}, "another process listens on")
	s.signal(syscall.SIGKILL)
	s.end()
	s = c.serveProcess(nil, "--listen", "unix:"+path) // the file that the killed one has left is replaced
	if status, text := ask(t, client, "GET", "http://localhost/healthz", "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	s.signal(syscall.SIGTERM)
	if code := s.end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, s.log.String())
	}
	if err := os.WriteFile(path, []byte("a file of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitUsage, "", []string{"serve", "--listen", "unix:" + path}, "--listen: ")
	if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("somebody")) {
		t.Errorf("the file is gone: %s, %v", text, err)
	}
}

// guardedBuffer is a bytes.Buffer for several goroutines.
type guardedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *guardedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *guardedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The page of a job has a command for a shell that enqueues such a job again, whatever its texts do to shells.
func TestThePageHasTheCommandThatEnqueuesAJobAgain(t *testing.T) {
	onEach(t, func(c *cli) {
		jobs := [][]string{
			{"mail"},
			{"mail", `{"to":"ann@example.com","n":[1,2.50]}`, "--kind=welcome"},
			{"--priority=7", "--group=it's", "--max-attempts=3", `--metadata={"a":"b c"}`, "--unique=k", "--", "-q", "-5"},
			{"a b", `"$(touch hacked) ` + "`touch hacked`" + ` ' \" \\ ! \n ` + "\u202e" + ` & ; | > <b>"`, "--kind=$HOME;true"},
		}
		for i, args := range jobs {
			c.ok(append([]string{"enqueue"}, args...)...)
			s := c.serveProcess(nil, "--listen", "127.0.0.1:0")
			_, page := ask(c.t, &http.Client{}, "GET", fmt.Sprintf("%s/jobs/%d", s.url, 2*i+1), "", "")
			s.signal(os.Interrupt)
			s.end()
			_, after, found := strings.Cut(page, `data-copy="dibs enqueue`)
			text, _, _ := strings.Cut(after, `"`)
			if !found {
				c.t.Fatalf("no command for %q: %s", args, page)
			}
			cmd := c.command()
			script := "dibs() { '" + cmd.Path + "' --db '" + c.db + "' \"$@\"; }\ndibs enqueue" + html.UnescapeString(text)
			sh := exec.Command("sh", "-c", script)
			sh.Env, sh.Dir = cmd.Env, c.t.TempDir()
			if out, err := sh.CombinedOutput(); err != nil {
				c.t.Fatalf("%s: %v %s", script, err, out)
			}
			if left, err := os.ReadDir(sh.Dir); err != nil || len(left) > 0 {
				c.t.Errorf("%s has made %v, %v", script, left, err)
			}
			old, again := c.job(2*i+1), c.job(2*i+2)
			for _, name := range []string{"queue", "kind", "payload", "metadata", "priority", "group", "max_attempts"} {
				if !reflect.DeepEqual(old[name], again[name]) {
					c.t.Errorf("%s: %s is %v, was %v", script, name, again[name], old[name])
				}
			}
		}
	})
}
