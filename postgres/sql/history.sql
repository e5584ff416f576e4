-- Purpose: read what happened in each of the last minutes in some queues, or in all together.
-- Parameters: $1 queues, or only '' for all together; $2 how many minutes before this one.
-- Columns out: queue; when the minute began; enqueued, claimed, succeeded, failed, died; wait and
--   run times in microseconds. The first row has no queue, and this minute. Others come in
--   no order; a minute may be there twice, to be added up, or not at all.
-- Concurrency: one snapshot, which locks nothing. What merge_tally.sql has moved to the history
--   is no longer in the tally, so each change is read once. Bears rows as merge_tally.sql does.
select null, date_trunc('minute', statement_timestamp()), 0, 0, 0, 0, 0, 0::bigint, 0::bigint
union all
select
    n.queue,
    h.minute,
    h.enqueued,
    h.claimed,
    h.succeeded,
    h.failed,
    h.died,
    h.wait_us,
    h.run_us
from generate_series(
        date_trunc('minute', statement_timestamp() - (interval '1 minute' * $2)),
        statement_timestamp(),
        interval '1 minute'
    ) as m (at)
cross join unnest($1::text[]) as n (queue)
cross join lateral (
    select
        x.minute,
        x.enqueued,
        x.claimed,
        x.succeeded,
        x.failed,
        x.died,
        x.wait_us,
        x.run_us
    from dibs.history x
    where x.minute = m.at and x.queue = n.queue
    offset 0
) h
union all
select
    case when ($1::text[])[1] = '' then '' else t.queue end,
    date_trunc('minute', t.at),
    (coalesce(sum(t.enqueued), 0) % 1e18)::bigint,
    (coalesce(sum(t.claimed), 0) % 1e18)::bigint,
    (coalesce(sum(t.succeeded), 0) % 1e18)::bigint,
    (coalesce(sum(t.failed), 0) % 1e18)::bigint,
    (coalesce(sum(t.died), 0) % 1e18)::bigint,
    (coalesce(sum(t.wait_us), 0) % 1e18)::bigint,
    (coalesce(sum(t.run_us), 0) % 1e18)::bigint
from dibs.tally t
where t.at >= date_trunc('minute', statement_timestamp() - (interval '1 minute' * $2)) and t.at <= clock_timestamp()
    and (($1::text[])[1] = '' or t.queue in (select n.queue from unnest($1::text[]) as n (queue)))
group by 1, 2
