package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
)

// checkQueue returns an error that names the known queues if none has the given name. It
// accepts an empty name.
func checkQueue(ctx context.Context, db jobTable, name string) error {
	if name == "" {
		return nil
	}
	if found, err := db.Queues(ctx, name); err != nil || len(found) > 0 {
		return err
	}
	names, err := queueNames(ctx, db)
	if err != nil {
		return err
	}
	return unknownQueue(name, names)
}

func queueNames(ctx context.Context, db interface {
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

func parseID(s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, &dibs.InvalidError{Field: "id", Reason: fmt.Sprintf("must be a job's number, got %.40q", s)}
	}
	return id, nil
}

func unknownQueue(name string, known []string) *hintError {
	next := "this database has no queues yet; 'dibs enqueue' makes them"
	if n := len(known); n > 0 {
		const shown = 10
		if n > shown {
			known = append(known[:shown:shown], fmt.Sprintf("and %d more: 'dibs queue'", n-shown))
		}
		next = "known queues: " + printable(strings.Join(known, ", "))
	}
	switch {
	case strings.Contains(name, "://"):
		next = "the URL of a database goes to --db"
	case likeMapping(name):
		next = fmt.Sprintf("did you mean --table %s? %s", shellWord(name), next)
	}
	return &hintError{err: fmt.Errorf("%w \"%s\"", dibs.ErrUnknownQueue, clip(printable(name), 60)), next: next}
}
