-- Purpose: count the unfinished rows.
-- Parameters: none.
-- Columns out: rows that wait, rows that can be claimed now, rows that run, dead rows; since when the oldest row can be
-- claimed, and the current time, in microseconds since 1970.
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
