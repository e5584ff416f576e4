-- Purpose: find out what the clock has made due, in any queue.
-- Parameters: none.
-- Columns out: whether leases have ended; microseconds until the next tick of a schedule,
--   negative if it has come, null if there is none.
-- Concurrency: a plain read of the first entries of two indexes.
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
    )
