package cmdline

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noteTime is how long a command waits for its change to be noted.
const noteTime = 5 * time.Second

// NoteChange notes what an operator has changed, as 'dibs serve' does, for its page of changes; it notes nothing
// if nothing was changed, or in an adopted table, which keeps no changes. The change has been made: it is noted
// even if the command has been interrupted since.
func NoteChange(ctx context.Context, db any, did string, n int, what string) error {
	own, is := db.(admin.Database)
	if n == 0 || !is {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := own.NoteChange(ctx, admin.Change{Who: operator(), Did: did, What: what, N: n}); err != nil {
		return fmt.Errorf("the change was made, but not noted: %w", err)
	}
	return nil
}

// Noted is NoteChange for commands that go on if the note cannot be written.
func (a *App) Noted(ctx context.Context, db any, did string, n int, what string) {
	if err := NoteChange(ctx, db, did, n, what); err != nil {
		fmt.Fprintf(a.Stderr, "dibs: %v\n", err)
	}
}

// operator is the user who has started the command, and where.
func operator() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"), "somebody")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host + " (command)"
}

// WithFlags adds to what a command has changed the flags that it was given. It leaves out the values of --payload
// and --metadata.
func WithFlags(cmd *cobra.Command, what string) string {
	var flags []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		if f.Name == "payload" || f.Name == "metadata" || f.Value.Type() == "bool" {
			flags = append(flags, "--"+f.Name)
			return
		}
		values := []string{f.Value.String()}
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			values = v.GetSlice()
		case *DurationFlag: // Its String hides 0.
			values[0] = wire.FormatDuration(time.Duration(*v))
		}
		for _, value := range values {
			flags = append(flags, "--"+f.Name+" "+words.ShellWord(value))
		}
	})
	if len(flags) == 0 {
		return what
	}
	return what + ": " + strings.Join(flags, " ")
}
