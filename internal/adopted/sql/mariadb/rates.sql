-- Purpose: count the rows that have ended lately, and average how long they waited and ran.
-- Parameters: none.
-- Columns out: number of rows read; number of completed rows in the window; number of these whose waiting time is known, and its average;
-- the same for the running time; the earliest end that was read, and the current time. Times are in microseconds.
-- Concurrency: reads only.
select
    count(*),
    coalesce(sum(case when r.dibs_done = 1 then 1 else 0 end), 0),
    count(case when r.dibs_done = 1 then r.dibs_began - r.dibs_due end),
    cast(avg(case when r.dibs_done = 1 then r.dibs_began - r.dibs_due end) as double),
    count(case when r.dibs_done = 1 then r.dibs_ended - r.dibs_began end),
    cast(avg(case when r.dibs_done = 1 then r.dibs_ended - r.dibs_began end) as double),
    min(r.dibs_ended),
    {{.Micros}}
from (
    select
        x.dibs_due,
        x.dibs_began,
        x.dibs_ended,
        case when x.dibs_mine = 1 and x.dibs_ended >= ({{.Micros}} - 300000000) then 1 else 0 end as dibs_done
    from (
        select
            cast({{.DueMicros}} as signed) as dibs_due,
            cast({{.BeganMicros}} as signed) as dibs_began,
            cast({{.EndedMicros}} as signed) as dibs_ended,
            case when {{.Done}}{{if .Where}} and ({{.Where}}){{end}} and ({{.Unfinished}}) is not true then 1 else 0 end as dibs_mine
        from {{.Table}} t
        {{- if .Recent}}
        where {{.Recent}}
        {{- end}}
        limit {{.Most}}
    ) x
) r
