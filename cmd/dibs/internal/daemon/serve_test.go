package daemon

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/server"
)

func TestServeNamesItsPage(t *testing.T) {
	t.Parallel()
	tcp, socket := &net.TCPAddr{IP: net.IPv4zero, Port: 7070}, &net.UnixAddr{Name: "/run/dibs.sock", Net: "unix"}
	for _, test := range []struct {
		address net.Addr
		tokens  bool
		want    string
	}{
		{tcp, false, "in a browser: http://localhost:7070\n"},
		{tcp, true, "in a browser: http://localhost:7070 (it asks for a token)\n"},
		{socket, false, ""},
	} {
		var out bytes.Buffer
		a := newApp(nil, &out, &out)
		a.sayServing(&serveFlags{}, test.address, test.tokens)
		if got := out.String(); !strings.Contains(got, test.want) || test.want == "" && strings.Contains(got, "browser") {
			t.Errorf("on %s, with tokens: %t, it says\n%s", test.address, test.tokens, got)
		}
	}
}

func TestServeRefusesWhatWouldBeUnsafeOrWrong(t *testing.T) {
	t.Setenv("DIBS_TOKENS", "")
	dir := t.TempDir()
	c := newCLI(t, "sqlite:"+filepath.Join(dir, "test.db"))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong, empty := write("wrong", "ok 12345678901234567890 read\n"+secretToken+"-0123456789012345 read\n"), write("empty", "# nothing\n")
	for line, words := range map[string][]string{
		"--listen 0.0.0.0:0":                            {"--listen 0.0.0.0:0 can be reached from other machines", "dibs serve token", "--insecure"},
		"--listen :0":                                   {"can be reached from other machines"},
		"--listen [::]:0":                               {"can be reached from other machines"},
		"--listen nonsense":                             {"--listen: "},
		"--listen 127.0.0.1:99999":                      {"--listen: "},
		"--listen unix:" + dir + "/no/such":             {"--listen: "},
		"--tokens " + dir + "/missing":                  {"--tokens: ", "no such file"},
		"--tokens " + wrong:                             {"--tokens ", "line 2: a name, a token and a scope are needed"},
		"--tokens " + empty:                             {"there is no token in it"},
		"--tls-cert x":                                  {"--tls-cert and --tls-key belong together"},
		"--tls-cert " + wrong + " --tls-key " + wrong:   {"--tls-cert: "},
		"--max-body 0":                                  {"--max-body must be at least 1, got 0"},
		"--max-answers 0":                               {"--max-answers must be at least 1, got 0"},
		"--max-streams -1":                              {"--max-streams must be at least 1, got -1"},
		"--max-waiting -1":                              {"--max-waiting must be at least 1, got -1"},
		"--shutdown -1s":                                {"--shutdown must not be negative"},
		"token":                                         {"which client? write for example: dibs serve token mailer --scope enqueue:mail"},
		"token a b --scope read":                        {"only one client"},
		"token a":                                       {"what may it do?"},
		"token a --scope adm":                           {`dibs: scope "adm": the scopes are enqueue, work, read and admin`, "dibs serve token --help"},
		"token a --scope read --scope read:mail":        {`dibs: scope "read:mail": the scope read is there already`},
		"token a --scope enqueue:":                      {`dibs: scope "enqueue:": a queue after enqueue`},
		"token a/b --scope read":                        {"dibs: the first word is no name: up to 64 letters"},
		"token " + secretToken + "! --scope read":       {"is no name"},
		"token ok --scope read --tokens " + wrong:       {"--tokens: ", "would be wrong"},
		"token a --scope read --tokens " + dir:          {"--tokens: "},
		"--listen 127.0.0.1:0 extra":                    {"unknown command"},
		"--listen 127.0.0.1:0 --tokens " + wrong + " x": {"unknown command"},
	} {
		args := append([]string{"serve"}, strings.Fields(line)...)
		c.Fails(cmdline.ExitUsage, "", args, words...)
		if r := c.Run("", args...); strings.Contains(r.Err, secretToken) {
			t.Errorf("dibs %s quotes a token: %s", line, r.Err)
		}
	}
	t.Setenv("DIBS_TOKENS", "a "+secretToken)
	if r := c.Run("", "serve", "--listen", "127.0.0.1:0"); r.Code != cmdline.ExitUsage || strings.Contains(r.Err, secretToken) || !strings.Contains(r.Err, "$DIBS_TOKENS, line 1") {
		t.Errorf("exit code %d, %s", r.Code, r.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "test.db")); err == nil {
		t.Error("a database was made")
	}
}

// One command makes a token; the file holds no secret and can be read by its owner only.
func TestServeTokenMakesATokenAndItsLine(t *testing.T) {
	t.Parallel()
	c := newCLI(t, "")
	shown := c.OK("serve", "token", "mailer", "--scope", "enqueue:mail,my%20news", "--scope", "read")
	parts := regexp.MustCompile(`^token:  (dibs_[A-Z2-7]{26})\nline:   (mailer sha256:[0-9a-f]{64} enqueue:mail,my%20news read)\n$`).FindStringSubmatch(shown)
	if parts == nil {
		t.Fatalf("printed: %s", shown)
	}
	if _, err := server.ParseTokens(parts[2]); err != nil {
		t.Error(err)
	}
	made := c.Row(c.OK("serve", "token", "boss", "--scope", "admin", "--json"))
	for _, field := range []string{"name", "token", "line"} {
		if made[field] == nil {
			t.Errorf("no %s in %v", field, made)
		}
	}
	file := filepath.Join(t.TempDir(), "tokens.txt")
	for _, name := range []string{"one", "two"} {
		token := c.OK("serve", "token", name, "--scope", "admin", "--tokens", file)
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), strings.TrimSpace(token)) || !strings.Contains(string(text), name+" sha256:") {
			t.Errorf("%s, %v", text, err)
		}
	}
	c.Fails(cmdline.ExitUsage, "", []string{"serve", "token", "one", "--scope", "admin", "--tokens", file}, "would be wrong: line 3: an earlier line has the same name or token")
	if info, err := os.Stat(file); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The flags that are limits say what the package's limits are by default.
func TestServesFlagsHaveTheDefaultsOfThePackage(t *testing.T) {
	t.Parallel()
	cmd := newServeCmd(newApp(nil, nil, nil))
	flags := map[string]int64{}
	for _, name := range []string{"max-body", "max-bodies", "max-answers", "max-queues", "max-requests", "max-waiting", "max-streams", "max-connections"} {
		var n int64
		for _, digit := range cmd.Flag(name).DefValue {
			n = 10*n + int64(digit-'0')
		}
		flags[name] = n
	}
	s := server.New(nil, server.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := s.Limits
	for name, want := range map[string]int64{"max-body": o.Body, "max-bodies": o.Bodies, "max-answers": o.Answers, "max-queues": int64(o.Queues), "max-requests": int64(o.Requests), "max-waiting": int64(o.Waiting), "max-streams": int64(o.Streams), "max-connections": int64(o.Connections)} {
		if flags[name] != want {
			t.Errorf("--%s is %d, the package's limit %d", name, flags[name], want)
		}
	}
	if wait := cmd.Flag("shutdown").DefValue; wait != "15s" {
		t.Errorf("--shutdown is %s", wait)
	}
}

// secretToken is no token, and what a user may give by mistake.
const secretToken = "S3CRET"
