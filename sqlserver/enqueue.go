package sqlserver

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

const (
	columns      = 12        // of a new job, without its payload, which comes last
	largePayload = 256 << 10 // from this size on a payload is a parameter of its own: as a part of the list it is copied more often
	fullList     = 1 << 20   // the size of a list of jobs at which it is sent
	keyColumn    = 7
)

// insert inserts jobs, and returns the id of the last one. internal/rowstore gives the columns of one job, those of several, or
// those that many have in common and then their payloads. The ids are drawn for all at once, so they follow each other.
func (s *Store) insert(ctx context.Context, tx dibs.SQLTx, text string, args ...any) (last, step int64, err error) {
	jobs := newJobs(args)
	list := listOf{tx: tx, text: text, left: len(jobs)}
	for i, j := range jobs {
		if err := list.add(ctx, i, j); err != nil {
			return 0, 0, err
		}
	}
	if err := list.send(ctx, nil); err != nil {
		return 0, 0, err
	}
	first := list.first.(int64)
	if key := args[keyColumn]; len(jobs) == 1 && key != nil {
		_, err = tx.ExecContext(ctx, s.sql.Statements.Get("hold_key"), args[0], key, first)
	}
	return first + int64(len(jobs)) - 1, 1, err
}

// newJob is the columns of a job, and its payload.
type newJob struct {
	columns []any
	payload string
}

func newJobs(args []any) (jobs []newJob) {
	if len(args) == columns+rowstore.AlikeAtOnce {
		for _, payload := range args[columns:] {
			jobs = append(jobs, newJob{args[:columns], payload.(string)})
		}
		return jobs
	}
	for ; len(args) > 0; args = args[columns+1:] {
		jobs = append(jobs, newJob{args[:columns], args[columns].(string)})
	}
	return jobs
}

// listOf gathers jobs for one statement.
type listOf struct {
	tx    dibs.SQLTx
	text  string
	left  int // how many ids the first statement draws
	first any // the id of the first job; nil: none has been drawn
	list  bytes.Buffer
}

func (l *listOf) add(ctx context.Context, place int, j newJob) error {
	row := append([]any{place}, j.columns...)
	if len(j.payload) >= largePayload {
		if err := l.send(ctx, nil); err != nil {
			return err
		}
		if err := l.encode(append(row, nil)); err != nil {
			return err
		}
		return l.send(ctx, j.payload)
	}
	if err := l.encode(append(row, j.payload)); err != nil || l.list.Len() < fullList {
		return err
	}
	return l.send(ctx, nil)
}

func (l *listOf) encode(row []any) error {
	l.list.WriteByte(',')
	encoder := json.NewEncoder(&l.list)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(row)
}

// send inserts the jobs of the list, if there are any.
func (l *listOf) send(ctx context.Context, payload any) error {
	if l.list.Len() == 0 {
		return nil
	}
	l.list.WriteByte(']')
	l.list.Bytes()[0] = '['
	var first int64
	err := rowstore.Each(ctx, l.tx, l.text, func(rows *sql.Rows) error { return rows.Scan(&first) }, l.list.String(), payload, l.first, l.left)
	l.list.Reset()
	l.first = first
	return err
}
