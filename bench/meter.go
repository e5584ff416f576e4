package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// measured is what one run of a workload by one contender gave.
type measured struct {
	figures map[string]float64 // by the key of their row
	series  []float64          // W5: jobs/s in equal parts of the time
}

// timed runs f, which does as many jobs as it returns, and says how fast and at what cost.
func (b *bench) timed(ctx context.Context, f func() (int, error)) (measured, error) {
	before, err := b.read(ctx)
	if err != nil {
		return measured{}, err
	}
	start := time.Now()
	n, err := f()
	took := time.Since(start)
	if err != nil {
		return measured{}, err
	}
	after, err := b.read(ctx)
	if err != nil {
		return measured{}, err
	}
	m := measured{figures: map[string]float64{
		"rate": float64(n) / took.Seconds(),
		"wal":  (after.wal - before.wal) / float64(n),
	}}
	if after.server > 0 {
		m.figures["server"] = micros(after.server-before.server) / float64(n)
	}
	if after.own > 0 {
		m.figures["client"] = micros(after.own-before.own) / float64(n)
	}
	return m, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// reading is what the server and this process have used so far.
type reading struct {
	server, own time.Duration // of CPU; 0 where it cannot be known
	wal         float64       // bytes
}

func (b *bench) read(ctx context.Context) (reading, error) {
	r := reading{own: processCPU(os.Getpid())}
	if b.admin == nil {
		return r, nil
	}
	r.server = serverCPU(b.postmaster)
	err := b.admin.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8").Scan(&r.wal)
	return r, err
}

// postmaster finds the process that all of the server's descend from, or 0.
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

// serverCPU is what all processes of the server have used, those that have ended too.
func serverCPU(postmaster int) time.Duration {
	if postmaster == 0 {
		return 0
	}
	sum := processCPU(postmaster)
	if fields := procStat(postmaster); fields != nil {
		sum += ticks(fields[statEndedUser] + fields[statEndedSystem])
	}
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
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

// processCPU is what a process has used, 0 if this is not Linux.
func processCPU(pid int) time.Duration {
	fields := procStat(pid)
	if fields == nil {
		return 0
	}
	return ticks(fields[statUser] + fields[statSystem])
}

// ticks are the kernel's hundredths of a second.
func ticks(n int) time.Duration { return time.Duration(n) * (time.Second / 100) }

// Places in procStat.
const (
	statParent      = 1
	statUser        = 11
	statSystem      = 12
	statEndedUser   = 13 // of children that have ended
	statEndedSystem = 14
	statFields      = 15
)

// procStat reads the numbers of /proc/PID/stat that follow the name, nil if it cannot.
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

// peakMemory is the most memory that this process has had, in MB, 0 if this is not Linux.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kB float64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		return 0
	}
	return kB / 1024
}
