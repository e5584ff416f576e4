// Package torture runs real worker and producer processes on one database, does to
// them what may happen to processes, connections and servers, and has their records
// judged (internal/history) by the promises of docs/guarantees.md.
//
// The seed decides the faults and the loads. How the processes interleave is up to
// the machine and is another in each run: a seed repeats a kind of run, not a run.
package torture
