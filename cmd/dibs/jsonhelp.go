package main

import "github.com/spf13/cobra"

const jsonHelp = `JSON in and out

With --json, stdout holds JSON only: one object per line. Messages stay on stderr.
The names of fields are stable; new ones may come. Control characters, and those that turn
the direction of text, are written as \u escapes.

  jobs        as 'claim', 'show' and 'ls' write them: id, queue, kind, state, payload,
              metadata, priority, run_at, attempt, excused (attempts that do not count),
              max_attempts, group, group_limit, held_until (where a rate holds it up), unique_key,
              unique_until, unique_free_at (by its period), worker, token, lease_until,
              cancel_requested, created_at, claimed_at, finished_at, errors (attempt, run_at,
              claimed_at, at, worker, error), result; of a schedule's job also schedule and tick;
              waits_for (how many of the jobs that it comes after have not ended; 'ls' counts up to
              1,000), flow (the least id of its call, if a job of that comes after another), cause
              (the job because of whose end it was cancelled);
              while it runs, perhaps progress: done, total, text, at; fault where SQL by hand has
              left no JSON, which a string shows in its place. 'show' adds why, and steps (name and
              value of those that are done). What a job does not have is left out. The payload has
              the bytes that were enqueued, without the spaces between its parts, and with \ufffd
              for half of a surrogate pair (\ud800 alone), which jq refuses; 'dibs show ID
              --payload' writes it as it is. With --table, "key" is the id of the row where
              that is no whole number from 1 on: use it, and not the id, which many programs
              round; without a limit, max_attempts is 0.
  a page      as 'ls' writes it: jobs, next (for --after, if there are more), why; 'before' has none
  new jobs    as 'enqueue --jobs' and 'serve' read them, each field optional:
              queue (default), kind (the queue's name), payload (null), metadata, priority,
              delay or run_at, max_attempts, group, unique_key, unique_until (finished, claimed),
              unique_for or unique_window ("day", "day in Europe/Berlin"), if_held (keep, replace,
              push), delay_limit, ref (a name for others of the same call), after: a list of the
              jobs that it comes after: refs in strings, ids as numbers, or objects with ref or id
              and on (completed, ended, failed). A field that is not known is an error
  outcomes    as 'finish' reads them, one a line, and 'work --lines' from its programs: id, token,
              ending (completed, retry, snooze, release, dead, cancelled), result, error, delay, add
              (new jobs, enqueued if and only if the outcome, completed, is written). A program of
              'work --lines' may also write progress (done, total, text), step with value, and
              before (after, limit), which a page of jobs answers; its jobs have flow, too
  enqueued    as 'enqueue' writes them: id; line (of the input, with many); where another
              job held the unique key, existing, and replaced or pushed if that job was
  queues      as 'queue' writes them: name, paused, concurrency, rate (n, per, burst), group_limit,
              group_rate (as rate), strict, order, lease, job_timeout, max_attempts, backoff (base,
              factor, max, jitter), keep_completed, keep_dead, keep_cancelled, payload_limit; of one
              queue also groups with settings of their own, and up to 1,000 that group_rate holds
              up: name, limit, rate, held_until
  counts      as 'stats' writes them: queue, paused, held_until (where its rate holds it up),
              held_groups (how many their rates hold up, at most 1,000), waiting, scheduled
              (those of the waiting whose time has not come), blocked, running, completed, dead,
              cancelled, scheduled_more (scheduled is only the least), miscounted (rows were changed
              with SQL, and not counted anew yet), oldest_age; window, and of
              that time: enqueued, claimed, succeeded, failed, avg_wait, avg_run, throughput
              (jobs/s); why
  a look      as 'top --once' writes it: queues (as counts), running, running_more, dead, dead_more
  failures    as 'failures' writes them, one group a line: queue, kind, fingerprint, part (that all
              errors of the group have, for --error), count, first, last, example (the last error),
              ids (the last 10), counts (how many died in each of the last 24 hours), read (how
              many dead jobs of the queue were read) and dead (how many it has)
  workers     as 'workers' writes them: id, name, host, pid, version, queues, kinds (null: all),
              concurrency, state (working, stopping, lost), since, seen, queues_paused, running:
              queue, jobs (how many), ids (100 of them) and held (the same, longest first: id, kind,
              worker, since). A name that holds jobs and is no worker has only name and running
  why         why due jobs do not start, of 'stats' and 'top' for each queue, of 'show' for the
              job, of 'ls' with queue: reason (paused, no_worker, stopping, no_worker_for_kind,
              limit, rate, busy, hanging, group, after, attempts), kinds, held (of hanging: id,
              kind, worker, since; pid and host where the register knows them), text. Left out where
              none is known
  a flow      as 'flow' writes it: id, flow and state of the job; before (what it comes after),
              after (what comes after it) and all (the jobs of its flow), each a list, with an item
              for each queue and kind: queue, kind, first (the least id), waiting, blocked, running,
              completed, dead, cancelled, unneeded (cancelled, as a job whose failure they need was
              completed); open: up to 10 ids of before that have not ended; needs: of each of
              these, how it has to end (completed, ended, failed); caused: how many jobs were
              cancelled because of it; lost: up to 10 ids of all that are dead or were cancelled,
              the first of each queue, kind and state; more: true if only the largest counts are
              listed
  schedules   as 'schedule' writes them: name, spec, zone, queue, kind, payload, metadata,
              priority, max_attempts, group, jitter, missed (once, skip, all), missed_limit,
              skip_overlap, start, end, paused, owner, next, last_tick, last_job, since.
              'schedule ls' leaves out payload and metadata. 'schedule next': tick
  a run       as 'torture' writes it: kept; database, database_version, own_server,
              dibs_version, platform, cores, began, duration, took, workers, producers,
              seed, command (that repeats it); totals: operations, calls, unanswered,
              enqueued, claimed, finished, refused, others, followers, added, steps; faults
              by kind; recoveries: count, p50_ms, p99_ms, max_ms of the abandoned jobs that
              nothing else held up, and recoveries_all of all; promises: number, promise,
              checked, broken, violations (the first ten, in words); linearizability: checked,
              undecided, broken, violations; interrupted, history, report if there is such a
              thing
  figures     as 'bench' writes them: dibs_version, database, rounds, scale, pool, handlers;
              machine and server: what the figures depend on; workloads: id, name, figures
              (name, unit, median, min, max, and all of the rounds), series (jobs/s in
              equal parts of the time, for each round) if there is such a thing;
              interrupted. 'bench --list': id, name, postgres_only, takes
  a server    as 'serve' writes it: url, address. 'serve token': name, token, line
  a diagnosis as 'doctor' writes it: findings: severity (wrong or note), name, text, next (what to
              do); looked (what it has looked at), skipped (what it could not, and why)
  findings    as 'adopt check' writes them: queue (the mapping's), severity (error, warning or
              note), field, text, advice. 'adopt init': mapping (the YAML), reasons: field, text,
              unsure. 'adopt sql': sql
  times       RFC 3339, such as "2026-11-21T08:30:00.123456Z"
  durations   numbers of seconds, such as 0.25. Where durations are read, strings such
              as "90s", "15m", "12h" and "14d" are taken too.`

func newJSONTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "json",
		Short: "What --json writes, and what is read as JSON",
		Long:  jsonHelp,
	}
}
