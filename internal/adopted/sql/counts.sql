-- Purpose: count the unfinished rows.
-- Parameters: none.
-- Columns out: how many are waiting, of these claimable now, being worked on, dead; when the time of the
-- oldest claimable one came, and the time now, in microseconds since 1970.
-- Concurrency: reads only.
select
    coalesce(sum(case when {{.State}} = 'waiting' then 1 else 0 end), 0),
    coalesce(sum(case when {{.Ready}} then 1 else 0 end), 0),
    coalesce(sum(case when {{.State}} = 'running' then 1 else 0 end), 0),
    coalesce(sum(case when {{.State}} = 'dead' then 1 else 0 end), 0),
    min(case when {{.Ready}} then {{.DueMicros}} end),
    {{.Micros}}
from {{.Table}} t
where {{.Open}}
