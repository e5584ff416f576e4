package workload

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs/internal/session"
)

// Server reads what a PostgreSQL server has used.
type Server struct {
	pool       *pgxpool.Pool
	postmaster int // pid of its first process; 0 unless it runs on this machine under Linux
}

// Connect connects to the server with the URL of one of its databases.
func Connect(ctx context.Context, url string) (*Server, error) {
	config, pooler, err := session.Parse(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = serverConns
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return session.SetUp(ctx, conn, pooler) }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Server{pool: pool}
	if s.postmaster, err = postmaster(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// serverConns is the size of Server's pool, which is enough for one measurement at a time.
const serverConns = 2

// Close closes the connections.
func (s *Server) Close() { s.pool.Close() }

// Exec runs a statement, such as one that creates a place.
func (s *Server) Exec(ctx context.Context, statement string) error {
	_, err := s.pool.Exec(ctx, statement)
	return err
}

// Checkpoint makes the server write its dirty pages now, so that the next measurement does
// not include writing them. Without the right to do so, figures vary more.
func (s *Server) Checkpoint(ctx context.Context) { _ = s.Exec(ctx, "checkpoint") }

// written returns how many bytes of log the server has written so far, and how many
// transaction ids it has given: one to each transaction that writes.
func (s *Server) written(ctx context.Context) (bytes, transactions float64, err error) {
	err = s.pool.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8,
		pg_snapshot_xmax(pg_current_snapshot())::text::float8`).Scan(&bytes, &transactions)
	return bytes, transactions, err
}

// transactions returns the server's count of transactions in the database at url. A
// transaction appears in it up to statsDelay later.
func (s *Server) transactions(ctx context.Context, url string) (n float64, err error) {
	config, _, err := session.Parse(url)
	if err != nil {
		return 0, err
	}
	err = s.pool.QueryRow(ctx, "select xact_commit::float8 from pg_stat_database where datname = $1", config.ConnConfig.Database).Scan(&n)
	return n, err
}

// Free returns the number of the server's free connections.
func (s *Server) Free(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- (select count(*)::int from pg_stat_activity where backend_type = 'client backend')`).Scan(&n)
	return n, err
}

// cpu returns the CPU time of all processes of the server, including those that have ended.
func (s *Server) cpu() time.Duration {
	if s == nil || s.postmaster == 0 {
		return 0
	}
	sum := processCPU(s.postmaster)
	if fields := procStat(s.postmaster); fields != nil {
		sum += ticks(fields[statEndedUser] + fields[statEndedSystem])
	}
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.postmaster, s.postmaster))
	if err != nil {
		return 0
	}
	for pid := range strings.FieldsSeq(string(list)) {
		if n, err := strconv.Atoi(pid); err == nil {
			sum += processCPU(n)
		}
	}
	return sum
}

// postmaster returns the pid of the server's first process, or 0.
func postmaster(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	var backend int
	if err := pool.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	// A process of another machine may have the same number here.
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend)); err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return 0, nil
	}
	fields := procStat(backend)
	if fields == nil {
		return 0, nil
	}
	return fields[statParent], nil
}

// processCPU returns the CPU time of a process, or 0 if this is not Linux.
func processCPU(pid int) time.Duration {
	fields := procStat(pid)
	if fields == nil {
		return 0
	}
	return ticks(fields[statUser] + fields[statSystem])
}

// ticks converts the kernel's hundredths of a second.
func ticks(n int) time.Duration { return time.Duration(n) * (time.Second / 100) }

// Indexes into procStat's result.
const (
	statParent      = 1
	statUser        = 11
	statSystem      = 12
	statEndedUser   = 13 // time of children that have ended
	statEndedSystem = 14
	statFields      = 15
)

// procStat returns the numbers of /proc/PID/stat after the name, or nil.
func procStat(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(words) < statFields {
		return nil
	}
	fields := make([]int, statFields)
	for i := range fields {
		fields[i], _ = strconv.Atoi(words[i]) // the first, the state, is a letter
	}
	return fields
}

// peakMemory returns the largest memory of this process so far, in MB, or 0 if this is not Linux.
func peakMemory() float64 { return memoryOf(os.Getpid(), "VmHWM") }

// memoryOf returns one of Linux' figures of a process' memory, in MB.
func memoryOf(pid int, key string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	var kB float64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		return 0
	}
	return kB / 1024
}
