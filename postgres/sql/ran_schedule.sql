-- Purpose: note the job of a schedule that was run by hand.
-- Parameters: $1 name, $2 id of the job.
-- Columns out: name; no row if the schedule is gone.
-- Concurrency: in the transaction that enqueues the job; a tick that is under way is waited for.
update dibs.schedule
set
    version = version + 1,
    last_job = $2
where name = $1
returning name
