-- Purpose: list the queues in which rates hold jobs up.
-- Parameters: none.
-- Columns out: queue; when the queue's rate lets the next job start, or null; how many of its
--   groups are held up by rates of their own, as far as 1,000.
-- Concurrency: a plain read of one row for each queue with a rate, and of an index of held groups.
select q.name, case when q.rate_n > 0 and r.not_before > statement_timestamp() then r.not_before end, g.n
from dibs.queue q
left join dibs.rate r on r.queue = q.name and r.group_key = ''
cross join lateral (
    select count(*) as n
    from (
        select
        from dibs.rate h
        where q.group_rates and h.queue = q.name and h.held_until > statement_timestamp()
        limit 1000
    ) h
) g
where (q.rate_n > 0 or q.group_rates) and ((q.rate_n > 0 and r.not_before > statement_timestamp()) or g.n > 0)
