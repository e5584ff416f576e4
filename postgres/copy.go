package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// copyFrom is how many jobs a batch must have for COPY to be faster than arrays: COPY
// takes more round trips.
const copyFrom = 500

// copyTx returns the transaction of c, and whether a batch of n jobs should go through it by COPY.
func copyTx(n int, c conn) (pgx.Tx, bool) {
	if n < copyFrom {
		return nil, false
	}
	p, _ := c.(pgxConn)
	t, ok := p.batcher.(pgx.Tx)
	return t, ok
}

// keepMemory makes the server's process keep up to 2 MiB of the memory that a statement frees.
// With the GNU C library it would often return memory to the system, and getting it again
// takes a fifth of the time of a COPY of 1,000 jobs (docs/design/0006-bulk.md).
// The library keeps twice the size of the largest block that was mapped and freed: see
// M_MMAP_THRESHOLD in its manual, mallopt(3).
// This takes up to 10 ms, so it comes before a connection's first COPY.
func keepMemory(ctx context.Context, t pgx.Tx) error {
	const key = "github.com/dibs-queue/dibs/postgres: keepMemory"
	done := t.Conn().PgConn().CustomData()
	if done[key] != nil {
		return nil
	}
	done[key] = true
	_, err := t.Exec(ctx, "select pg_catalog.octet_length(pg_catalog.repeat('-', 1048576))")
	return err
}

// insertCopied inserts by COPY in the transaction t; c is t as a conn.
func (s *Store) insertCopied(ctx context.Context, b batch, c conn, t pgx.Tx) ([]dibs.Enqueued, error) {
	if err := keepMemory(ctx, t); err != nil {
		return nil, err
	}
	var now time.Time
	var ids []int64
	err := c.run(ctx, s.step("enqueue_draw", len(b.rows), b.queues, b.versions).into(&now, &ids))
	if err == nil && ids == nil {
		err = settings.ErrStale
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.rows, func(r checks.Row) bool { return s.wide(&r) }) {
		rows := newCopied(b.rows, ids, s.copyPayload)
		if _, err := t.Conn().PgConn().CopyFrom(ctx, rows, s.sql.get("enqueue_copy_wide")); err != nil {
			return nil, err
		}
	}
	jobs := copiedJobs{s: s, now: now, counts: map[string]*added{}, woken: map[queueGroup]bool{}, followed: map[int64]bool{}}
	if b.flows() {
		jobs.flow = ids[0]
		for place := range followedPlaces(b.rows, nil) {
			jobs.followed[ids[place]] = true
		}
	}
	rows := newCopied(b.rows, ids, jobs.row)
	if _, err := t.Conn().PgConn().CopyFrom(ctx, rows, s.sql.get("enqueue_copy")); err != nil {
		return nil, err
	}
	if err := s.countCopied(ctx, &jobs, c); err != nil {
		return nil, err
	}
	out := make([]dibs.Enqueued, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	return out, nil
}

func (s *Store) countCopied(ctx context.Context, r *copiedJobs, c conn) error {
	var queues, wakeQueues, wakeGroups []string
	var waiting, blocked []int64
	for queue, n := range r.counts {
		queues, waiting, blocked = append(queues, queue), append(waiting, n.waiting), append(blocked, n.blocked)
	}
	for w := range r.woken {
		wakeQueues, wakeGroups = append(wakeQueues, w.queue), append(wakeGroups, w.group)
	}
	return c.run(ctx, s.step("enqueue_count", queues, waiting, blocked, wakeQueues, wakeGroups))
}

// copied is the io.Reader that COPY reads: it makes the rows as they are sent.
type copied struct {
	rows []checks.Row // jobs whose rows have not been made
	ids  []int64
	row  func(to []byte, r *checks.Row, id int64) []byte // appends the row of a job, or nothing if the job has none

	unread []byte // bytes of the buffer that have not been read
	buffer []byte // one row
	ended  bool   // the trailer, which ends the data, has been made
}

func newCopied(rows []checks.Row, ids []int64, row func([]byte, *checks.Row, int64) []byte) *copied {
	const header = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // signature, no flags, no more header
	return &copied{rows: rows, ids: ids, row: row, unread: []byte(header)}
}

func (c *copied) Read(p []byte) (n int, err error) {
	for n < len(p) {
		for len(c.unread) == 0 && !c.ended { // a row may take no bytes
			if c.ended = len(c.rows) == 0; c.ended {
				c.buffer = append(c.buffer[:0], 0xff, 0xff)
			} else {
				c.buffer = c.row(c.buffer[:0], &c.rows[0], c.ids[0])
				c.rows, c.ids = c.rows[1:], c.ids[1:]
			}
			c.unread = c.buffer
		}
		if len(c.unread) == 0 {
			return n, io.EOF
		}
		m := copy(p[n:], c.unread)
		c.unread, n = c.unread[m:], n+m
	}
	return n, nil
}

// copyPayload appends a wide payload, in the columns of enqueue_copy_wide.sql.
func (s *Store) copyPayload(to []byte, r *checks.Row, id int64) []byte {
	if !s.wide(r) {
		return to
	}
	to = binary.BigEndian.AppendUint16(to, 3) // columns
	to = appendInt8(to, id)
	to = appendText(to, r.Payload)
	return appendText(to, r.Metadata)
}

// copiedJobs makes the rows of jobs. It decides for each job what enqueue.sql decides in SQL,
// and counts the jobs.
type copiedJobs struct {
	s      *Store
	now    time.Time // time of the database's clock
	counts map[string]*added
	woken  map[queueGroup]bool

	flow     int64          // 0: no job comes after another
	followed map[int64]bool // ids of jobs that others come after
}

type added struct{ waiting, blocked int64 }

type queueGroup struct{ queue, group string }

// row appends a job's columns, in the order in which enqueue_copy.sql names them.
func (c *copiedJobs) row(to []byte, r *checks.Row, id int64) []byte {
	const columns = 13
	runAt := r.RunAt
	if runAt.IsZero() {
		runAt = c.now.Add(r.Delay)
	}
	gate := c.count(r, runAt)
	if runAt.Before(c.now) {
		runAt = c.now
	}
	to = binary.BigEndian.AppendUint16(to, columns)
	to = appendInt8(to, id)
	to = appendText(to, r.Queue)
	to = appendText(to, r.Kind)
	payload, metadata := r.Payload, r.Metadata
	if c.s.wide(r) {
		payload, metadata = nil, nil
	}
	to = appendText(to, payload)
	to = appendText(to, metadata)
	to = appendInt2(to, r.Priority)
	to = appendInt8(to, sincePostgres(runAt))
	to = appendInt2(to, gate)
	to = appendInt4(to, int32(r.MaxAttempts))
	to = appendText(to, r.Group)
	to = appendInt8(to, sincePostgres(c.now))
	if c.flow == 0 {
		return appendBool(appendText(to, ""), false)
	}
	return appendBool(appendInt8(to, c.flow), c.followed[id])
}

// count decides which gate a job gets, and counts it.
func (c *copiedJobs) count(r *checks.Row, runAt time.Time) (gate int16) {
	n := c.counts[r.Queue]
	if n == nil {
		n = &added{}
		c.counts[r.Queue] = n
	}
	switch {
	case len(r.Edges) > 0:
		n.blocked++
		return 5
	case r.Group == "":
		n.waiting++
		return 0
	case runAt.After(c.now):
		n.waiting++
		return 2
	}
	n.blocked++
	c.woken[queueGroup{r.Queue, r.Group}] = true
	return 1
}

func appendBool(to []byte, v bool) []byte {
	to = binary.BigEndian.AppendUint32(to, 1)
	if v {
		return append(to, 1)
	}
	return append(to, 0)
}

func appendInt2(to []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(to, 2), uint16(v))
}

func appendInt4(to []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(to, 4), uint32(v))
}

func appendInt8(to []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(to, 8), uint64(v))
}

// appendText writes an empty text as null: no column has an empty text.
func appendText[T string | []byte](to []byte, s T) []byte {
	if len(s) == 0 {
		return binary.BigEndian.AppendUint32(to, 0xffffffff) // a length of -1
	}
	return append(binary.BigEndian.AppendUint32(to, uint32(len(s))), s...)
}

// sincePostgres is a timestamptz: microseconds since 2000, in UTC.
func sincePostgres(t time.Time) int64 {
	const epoch = 946_684_800 // the year 2000 in Unix time
	return (t.Unix()-epoch)*1_000_000 + int64(t.Nanosecond()/1000)
}
