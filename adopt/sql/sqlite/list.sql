-- Purpose: list unfinished rows, in the order in which they are claimed.
-- Parameters: n rows at most; skip: how many to pass over; state: waiting, running or null for both.
-- Columns out: the row's key, its fence, times, kind, group and payload, and whether somebody is at it.
-- Concurrency: reads only.
select
    {{.Out}},
    case when {{.Taken}} then 1 else 0 end
from {{.Table}} t
where {{.Open}}
and ({{param "state"}} is null or ({{param "state"}} = 'running') = ({{.Taken}}))
order by {{.Order}}
limit {{param "n"}} offset {{param "skip"}}
