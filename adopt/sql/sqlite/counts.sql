-- Purpose: count the unfinished rows.
-- Parameters: none.
-- Columns out: how many are unfinished, claimable now, being worked on.
-- Concurrency: reads only.
select
    count(*),
    coalesce(sum(case when {{.Ready}} then 1 else 0 end), 0),
    coalesce(sum(case when {{.Taken}} then 1 else 0 end), 0)
from {{.Table}} t
where {{.Open}}
