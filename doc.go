// Package dibs is a work queue kept in the SQL database that its users already
// have. Many workers on many machines take work from one table at once: no two
// ever hold the same job, no job is left behind, and nobody waits for anybody
// else's lock.
//
// Four nouns carry the package:
//
//   - A [Job] is one unit of work, one row: a queue, a kind that selects its
//     handler, a JSON payload, a priority, and the earliest time it may start.
//   - A [Store] keeps jobs in one database. Packages sqlite and postgres make one.
//     Everything a worker does goes through its few methods, always in batches.
//   - A claim gives jobs to a named worker for the length of a lease. One random
//     [Token] per claim proves it; every later write names the token, and a write
//     with a token that is no longer good changes nothing and says so with
//     [ErrLeaseLost].
//   - A [Worker] claims, runs handlers, extends leases while they run, and
//     finishes: it writes the [Outcome] of each attempt.
//
// What to know before use:
//
//   - A job may run more than once: when a worker dies or its lease ends, another
//     starts the job again. Two workers never both hold it, and only the holder can
//     finish it, so effects written to the same database in the transaction that
//     finishes the job ([Tx]) happen exactly once. Effects elsewhere need to be
//     idempotent.
//   - Time is the database's clock. Clocks of workers do not matter.
//   - An attempt is counted when it is claimed, so a job that kills its worker
//     dies too, after MaxAttempts.
//   - A lease is short (10 s by default) and extended while the handler runs. It
//     detects crashes; it does not limit how long a handler may take. The
//     worker's JobTimeout does that.
package dibs
