-- Purpose: find out which last jobs of schedules have not ended.
-- Parameters: $1 ids of the jobs.
-- Columns out: id of each that has not.
-- Concurrency: after schedules_due.sql, which has locked the schedules: this statement's
--   snapshot has every job that an earlier tick of theirs has made.
select id
from dibs.job
where id = any ($1::bigint[])
