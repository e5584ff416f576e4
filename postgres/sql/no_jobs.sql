-- Purpose: find which of some jobs do not exist.
-- Parameters: $1 ids.
-- Columns out: id.
-- Concurrency: one snapshot over both tables, so a job that is just ending is found in one of them; locks nothing. A
--   job without a trace of its end is not found a moment later: settle_close.sql says what its end counts as.
select i.id
from unnest($1::bigint[]) as i (id)
where not exists (select from dibs.job j where j.id = i.id offset 0)
    and not exists (select from dibs.finished f where f.id = i.id offset 0)
