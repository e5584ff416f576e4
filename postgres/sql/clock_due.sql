-- Purpose: find out what the clock has made due, in any queue, and whether a queue is new.
-- Parameters: none.
-- Columns out: whether leases have ended; microseconds until the next tick of a schedule,
--   negative if it has come, null if there is none; whether new_queues.sql finds any;
--   whether jobs have ended that others come after.
-- Concurrency: a plain read of the first entries of two indexes, and of the first of each queue
--   in a third.
select
    exists (
        select
        from dibs.claim c
        where c.check_at <= statement_timestamp()
    ),
    (
        select (date_part('epoch', s.next_at - statement_timestamp()) * 1000000)::bigint
        from dibs.schedule s
        where s.next_at is not null
        order by s.next_at
        limit 1
    ),
    exists (
        with recursive listed (queue) as (
            select min(queue)
            from dibs.wake_list
            union all
            select (
                select min(w.queue)
                from dibs.wake_list w
                where w.queue > l.queue
            )
            from listed l
            where l.queue is not null
        )
        select
        from listed l
        where l.queue is not null
            and not exists (select from dibs.queue q where q.name = l.queue and q.grouped)
    ),
    exists (select from dibs.ended_list)
