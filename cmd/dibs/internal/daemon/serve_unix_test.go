//go:build unix

package daemon

import (
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
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

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
		s := c.ServeProcess(nil, "--listen", "127.0.0.1:0")
		if status, text := ask(c.T, http.DefaultClient, "POST", s.URL+"/v1/jobs", "", `{"queue":"q","payload":1}`); status != http.StatusCreated {
			c.T.Fatalf("%d %s", status, text)
		}
		if got := c.Stats("q"); got["waiting"] != 1.0 {
			c.T.Errorf("the queue has %v", got)
		}
		waited := make(chan string)
		go func() {
			status, text := ask(c.T, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "POST", s.URL+"/v1/claim", "", `{"queue":"none","worker":"w","wait":60}`)
			waited <- fmt.Sprint(status, " ", text)
		}()
		s.Said("/v1/jobs")
		time.Sleep(200 * time.Millisecond) // the claim should wait by then; if not, it is refused, which is as good
		s.Signal(syscall.SIGTERM)
		s.Signal(syscall.SIGTERM) // timeout(1) sends two: they count as one
		if code := s.End(); code != cmdline.ExitOK {
			c.T.Errorf("exit code %d: %s", code, s.Log.String())
		}
		if got := <-waited; got != "200 {\"jobs\":[]}\n" && !strings.HasPrefix(got, "503") && !strings.HasPrefix(got, "0 ") {
			c.T.Errorf("the client that waited got %s", got)
		}
		if status, text := ask(c.T, http.DefaultClient, "GET", s.URL+"/healthz", "", ""); status != 0 {
			c.T.Errorf("it still serves: %d %s", status, text)
		}
	})
}

func TestASecondSignalBreaksOffRequests(t *testing.T) {
	c := onSQLite(t)
	s := c.ServeProcess(nil, "--listen", "127.0.0.1:0", "--shutdown", "1h")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil { // the rest never comes
		t.Fatal(err)
	}
	if status, _ := ask(t, http.DefaultClient, "GET", s.URL+"/v1/stats", "", ""); status != 200 {
		t.Fatal(status)
	}
	s.Signal(syscall.SIGTERM)
	for status := 200; status != 0; { // It serves until it has heard the signal.
		status, _ = ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", s.URL+"/healthz", "", "")
	}
	time.Sleep(700 * time.Millisecond) // sooner it would count as the first
	if s.Cmd.ProcessState != nil {
		t.Error("it has ended although a request is in progress")
	}
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != cmdline.ExitInterrupted || !strings.Contains(s.Log.String(), "dibs: stopped by a second signal") {
		t.Errorf("exit code %d: %s", code, s.Log.String())
	}
}

// Tokens are taken and given while the server runs. Nothing that it prints holds one.
func TestServeReadsItsTokensAgain(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	file := filepath.Join(t.TempDir(), "tokens.txt")
	first := strings.TrimSpace(c.OK("serve", "token", "first", "--scope", "read", "--tokens", file))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	s := c.ServeProcess(nil, "--listen", "0.0.0.0:0", "--tokens", file)
	_, port, err := net.SplitHostPort(s.Got["address"].(string))
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
	second := strings.TrimSpace(c.OK("serve", "token", "second", "--scope", "read", "--tokens", file))
	becomes := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(clitest.Patience); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s; %s", what, s.Log.String())
			}
		}
	}
	becomes("the second token is good", func() bool { return get(second) == 200 })
	if err := os.WriteFile(file, []byte("broken "+first+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Said("cannot be read")
	if get(first) != 200 || get(second) != 200 {
		t.Error("a mistake in the file has taken tokens away")
	}
	text := "second 12345678901234567890 read\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	becomes("the first token is taken away", func() bool { return get(first) == 401 && get(second) == 401 && get("12345678901234567890") == 200 })
	s.Signal(syscall.SIGINT)
	if code := s.End(); code != cmdline.ExitOK {
		t.Errorf("exit code %d", code)
	}
	log := s.Log.String()
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
	s := c.ServeProcess([]string{"DIBS_TOKENS=boss 12345678901234567890 admin"}, "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	get := func(roots *x509.CertPool, most uint16) (int, int) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MaxVersion: most}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/stats", nil)
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
	if status, proto := get(trusted, tls.VersionTLS13); status != 200 || proto != 2 || !strings.HasPrefix(s.URL, "https://") {
		t.Fatalf("%d over HTTP/%d at %s: %s", status, proto, s.URL, s.Log.String())
	}
	if status, _ := get(trusted, tls.VersionTLS11); status != 0 {
		t.Error("TLS 1.1 is taken")
	}
	renewed := certificate(t, cert, key, 2)
	for end := time.Now().Add(clitest.Patience); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := get(renewed, tls.VersionTLS13); status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the renewed certificate is not used: %s", s.Log.String())
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
	s := c.ServeProcess(nil, "--listen", "unix:"+path)
	if status, text := ask(t, client, "GET", "http://localhost/v1/stats", "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	c.Fails(cmdline.ExitUsage, "", []string{"serve", "--listen", "unix:" + path}, "another process listens on")
	s.Signal(syscall.SIGKILL)
	s.End()
	s = c.ServeProcess(nil, "--listen", "unix:"+path) // the file that the killed one has left is replaced
	if status, text := ask(t, client, "GET", "http://localhost/healthz", "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != cmdline.ExitOK {
		t.Errorf("exit code %d: %s", code, s.Log.String())
	}
	if err := os.WriteFile(path, []byte("a file of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Fails(cmdline.ExitUsage, "", []string{"serve", "--listen", "unix:" + path}, "--listen: ")
	if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("somebody")) {
		t.Errorf("the file is gone: %s, %v", text, err)
	}
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
			c.OK(append([]string{"enqueue"}, args...)...)
			s := c.ServeProcess(nil, "--listen", "127.0.0.1:0")
			_, page := ask(c.T, &http.Client{}, "GET", fmt.Sprintf("%s/jobs/%d", s.URL, 2*i+1), "", "")
			s.Signal(os.Interrupt)
			s.End()
			_, after, found := strings.Cut(page, `data-copy="dibs enqueue`)
			text, _, _ := strings.Cut(after, `"`)
			if !found {
				c.T.Fatalf("no command for %q: %s", args, page)
			}
			cmd := c.Command()
			script := "dibs() { '" + cmd.Path + "' --db '" + c.DB + "' \"$@\"; }\ndibs enqueue" + html.UnescapeString(text)
			sh := exec.Command("sh", "-c", script)
			sh.Env, sh.Dir = cmd.Env, c.T.TempDir()
			if out, err := sh.CombinedOutput(); err != nil {
				c.T.Fatalf("%s: %v %s", script, err, out)
			}
			if left, err := os.ReadDir(sh.Dir); err != nil || len(left) > 0 {
				c.T.Errorf("%s has made %v, %v", script, left, err)
			}
			old, again := c.Job(2*i+1), c.Job(2*i+2)
			for _, name := range []string{"queue", "kind", "payload", "metadata", "priority", "group", "max_attempts"} {
				if !reflect.DeepEqual(old[name], again[name]) {
					c.T.Errorf("%s: %s is %v, was %v", script, name, again[name], old[name])
				}
			}
		}
	})
}
