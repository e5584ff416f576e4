package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/server"
	"github.com/spf13/cobra"
)

// tokensEnv is the environment variable with tokens, in the lines of a file. DIBS_TOKEN is taken:
// 'dibs work' gives its programs the token of their lease by that name.
const tokensEnv = "DIBS_TOKENS"

// maxTokens is the size of a file of tokens in bytes.
const maxTokens = 1 << 20

// readTokens reads the tokens of a file, or else of $DIBS_TOKENS, and reads the file again when it changes until
// ctx ends. It returns nil without an error if none are given.
func readTokens(ctx context.Context, log *slog.Logger, file string) (*server.Tokens, error) {
	text := os.Getenv(tokensEnv)
	if file == "" && text == "" {
		return nil, nil
	}
	if file == "" {
		tokens, err := server.ParseTokens(text)
		if err != nil {
			return nil, fmt.Errorf("$%s, %w", tokensEnv, err)
		}
		return tokens, nil
	}
	read := func() (string, error) {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		if info.Size() > maxTokens {
			return "", fmt.Errorf("%s has %d bytes, the limit is %d", file, info.Size(), maxTokens)
		}
		if info.Mode().Perm()&0o007 != 0 && os.PathSeparator == '/' {
			log.Warn("everybody on this machine can read or write the file of tokens: chmod o= it", "file", file)
		}
		text, err := os.ReadFile(file)
		return string(text), err
	}
	text, err := read()
	if err != nil {
		return nil, fmt.Errorf("--tokens: %w", err)
	}
	tokens, err := server.ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("--tokens %s, %w", file, err)
	}
	watchFiles(ctx, []string{file}, func() {
		text, err := read()
		if err == nil {
			err = tokens.Replace(text)
		}
		logReread(log, "the file of tokens", err)
	})
	return tokens, nil
}

// readCertificate reads the files of --tls-cert and --tls-key, and reads them again when they change until
// ctx ends.
func (f *serveFlags) readCertificate(ctx context.Context, log *slog.Logger) (*tls.Config, error) {
	var current atomic.Pointer[tls.Certificate]
	load := func() error {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err == nil {
			current.Store(&pair)
		}
		return err
	}
	if err := load(); err != nil {
		return nil, err
	}
	watchFiles(ctx, []string{f.cert, f.key}, func() { logReread(log, "the certificate", load()) })
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
	}, nil
}

// watchEvery is how often files are looked at for changes.
const watchEvery = time.Second

// watchFiles calls changed after one of the files has changed, until ctx ends. If changed finds half of a
// new file, the other half is another change.
func watchFiles(ctx context.Context, names []string, changed func()) {
	look := func() (states []string) {
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				states = append(states, fmt.Sprint(info.ModTime().UnixNano(), info.Size()))
			} else {
				states = append(states, "missing")
			}
		}
		return states
	}
	last := look()
	go func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if now := look(); !slices.Equal(now, last) {
				last = now
				changed()
			}
		}
	}()
}

func newServeTokenCmd(a *app) *cobra.Command {
	var scopes []string
	var file string
	cmd := &cobra.Command{
		Use:   "token NAME --scope SCOPE[:QUEUE,...]",
		Short: "Make a token for 'dibs serve'",
		Long: `Draw a token, and print it with the line for the file that 'dibs serve --tokens' reads. The line
has only the token's hash, so nobody can look the token up again: give it to the client. NAME
stands for it in the server's log.

With --tokens FILE the line is added to that file, and only the token is printed. A server that
runs takes it within two seconds. To take a token away, delete its line.

  enqueue   add jobs
  work      claim, extend and finish jobs
  read      look at jobs, queues, schedules, workers and statistics
  admin     change jobs, queues and schedules, and all that the others may

After a colon stand the only queues that a scope is for. A blank, a comma and a % in the name
of a queue are written as %20, %2C and %25.`,
		Example: `  dibs serve token mailer --scope enqueue:mail,news --scope read:mail --tokens tokens.txt
  dibs serve token boss --scope admin`,
		Args: cmdline.Asking("client", "mailer --scope enqueue:mail", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(scopes) == 0 {
				return cmdline.Usagef(cmd, "what may it do? give --scope enqueue, work, read or admin, or such as enqueue:mail")
			}
			token, line, err := server.NewToken(args[0], scopes...)
			if err != nil {
				return cmdline.Usagef(cmd, "%w", err)
			}
			if file != "" {
				if err := addToken(file, line); err != nil {
					return cmdline.Usagef(cmd, "--tokens: %w", err)
				}
			}
			return a.writeToken(args[0], token, line, file)
		},
	}
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what it may do; may be given again")
	cmd.Flags().StringVar(&file, "tokens", "", "add its line to this `FILE`, which is made if it is missing")
	return cmd
}

func (a *app) writeToken(name, token, line, file string) error {
	switch {
	case a.JSON:
		return a.WriteJSON(struct {
			Name  string `json:"name"`
			Token string `json:"token"`
			Line  string `json:"line"`
		}{name, token, line})
	case file != "":
		a.Say("%s", token)
	default:
		a.Say("token:  %s\nline:   %s", token, line)
	}
	return nil
}

// addToken adds a line to a file of tokens, which must stay right.
func addToken(file, line string) (err error) {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(old) > 0 && !strings.HasSuffix(string(old), "\n") {
		line = "\n" + line
	}
	line += "\n"
	if _, err := server.ParseTokens(string(old) + line); err != nil {
		return fmt.Errorf("%s would be wrong: %w", file, err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(line)
	return err
}
