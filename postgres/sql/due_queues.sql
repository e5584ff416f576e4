-- Purpose: find the queues from which a claim may find jobs now.
-- Parameters: $1 queues, $2 kinds or null for all; then the ranges to scan, arrays of equal
--   length: $3 queue, and as in claim.sql $4 how to scan (0: a gap, 1: a lane, 3: the
--   put-back jobs of a lane), $5 lowest and $6 highest priority, $7 run_at and $8 id of the
--   place to start, or for 3, to end.
-- Columns out: queue. Also one whose jobs a limit or a group's places keep waiting, and one that has
--   jobs and no settings, as after delete_queue.sql: a claim makes it.
-- Concurrency: a plain read that locks nothing. It reads each range up to its first due job,
--   and starts at marks whose transactions have all ended, so it misses no visible job.
select q.name
from dibs.queue q
where q.name = any ($1::text[])
    and not q.paused
    and q.grouped
    and (
        exists (select from dibs.wake w where w.queue = q.name offset 0)
        or exists (select from dibs.wake_list w where w.queue = q.name offset 0)
        or exists (select from dibs.job j where j.queue = q.name and j.gate = 2 and j.run_at <= statement_timestamp() offset 0)
        or q.group_rates and exists (select from dibs.rate r where r.queue = q.name and r.held_until <= statement_timestamp() offset 0)
    )
union
select q.name
from unnest($3::text[], $4::smallint[], $5::smallint[], $6::smallint[], $7::timestamptz[], $8::bigint[])
        as m (queue, how, low, high, run_at, id)
    join dibs.queue q on q.name = any (array[m.queue])
where not q.paused
    and (
        exists (
            select
            from dibs.job r
            where m.how = 1
                and r.queue = m.queue and r.gate = 0 and r.priority = m.low
                and (r.run_at, r.id) >= (m.run_at, m.id) and r.run_at <= statement_timestamp()
                and r.token is null
                and ($2::text[] is null or r.kind = any ($2))
            offset 0
        )
        or exists (
            select
            from dibs.job r
            where m.how = 0
                and r.queue = m.queue and r.gate = 0 and r.priority >= m.low and r.priority <= m.high
                and r.run_at <= statement_timestamp()
                and r.token is null
                and ($2::text[] is null or r.kind = any ($2))
            offset 0
        )
        or exists (
            select
            from dibs.job b
            where m.how = 3
                and b.queue = m.queue and b.returned and b.gate::int = 0 and b.priority = m.low
                and (b.run_at, b.id) < (m.run_at, m.id) and b.run_at <= statement_timestamp()
                and b.token is null
                and ($2::text[] is null or b.kind = any ($2))
            offset 0
        )
    )
union
select n.name
from unnest($1::text[]) as n (name)
where not exists (select from dibs.queue q where q.name = n.name offset 0)
    and (
        exists (select from dibs.job j where j.queue = n.name and j.gate = 0 offset 0)
        or exists (select from dibs.job j where j.queue = n.name and j.gate = 1 offset 0)
        or exists (select from dibs.job j where j.queue = n.name and j.gate = 2 offset 0)
    )
