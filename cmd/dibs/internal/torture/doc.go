// Package torture runs real worker and producer processes on one database. It kills and
// stops processes, cuts connections and crashes the server, and judges from the records
// (internal/lab/history) whether the promises of docs/guarantees.md were kept.
//
// The seed decides the faults and the loads. The processes interleave differently in each
// run, so a seed repeats the kind of a run, not its exact course.
package torture
