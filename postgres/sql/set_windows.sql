-- Purpose: have new jobs hold their unique keys for a period.
-- Parameters: arrays of equal length: $1 queue, $2 unique key, $3 end of the period, $4 job.
-- Columns out: none.
-- Concurrency: take_windows.sql has locked the rows in this transaction.
update dibs.unique_window w
set
    until = n.until,
    job = n.job
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]) as n (queue, unique_key, until, job)
where w.queue = n.queue and w.unique_key = n.unique_key
