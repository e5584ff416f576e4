package cmdline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// CheckQueue returns an error that names the known queues if none has the given name. It
// accepts an empty name.
func CheckQueue(ctx context.Context, db JobTable, name string) error {
	if name == "" {
		return nil
	}
	if found, err := db.Queues(ctx, name); err != nil || len(found) > 0 {
		return err
	}
	names, err := QueueNames(ctx, db)
	if err != nil {
		return err
	}
	return UnknownQueue(name, names)
}

func QueueNames(ctx context.Context, db interface {
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
},
) ([]string, error) {
	queues, err := db.Queues(ctx)
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	return names, err
}

func ParseID(s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, &dibs.InvalidError{Field: "id", Reason: fmt.Sprintf("must be a job's number, got %.40q", s)}
	}
	return id, nil
}

func UnknownQueue(name string, known []string) *HintError {
	next := "this database has no queues yet; 'dibs enqueue' makes them"
	if n := len(known); n > 0 {
		const shown = 10
		if n > shown {
			known = append(known[:shown:shown], fmt.Sprintf("and %d more: 'dibs queue'", n-shown))
		}
		next = "known queues: " + words.Printable(strings.Join(known, ", "))
	}
	switch {
	case strings.Contains(name, "://"):
		next = "the URL of a database goes to --db"
	case likeMapping(name):
		next = fmt.Sprintf("did you mean --table %s? %s", words.ShellWord(name), next)
	}
	return &HintError{Err: fmt.Errorf("%w \"%s\"", dibs.ErrUnknownQueue, term.Clip(words.Printable(name), 60)), Next: next}
}
