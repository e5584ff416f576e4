-- Purpose: find out what a sweep has to do.
-- Parameters: none.
-- Columns out: the newest row of the tally; the queues in which grouped jobs wait to be
--   admitted; percent of the server's connections in use; whether the server only reads.
-- Concurrency: a plain read; admitting itself takes a turn (turn_admit.sql).
select
    (
        select coalesce(max(t.id), 0)
        from dibs.tally t
    ),
    array(
        select q.name
        from dibs.queue q
        where q.grouped
            and (
                exists (select from dibs.wake w where w.queue = q.name offset 0)
                or exists (select from dibs.wake_list w where w.queue = q.name offset 0)
                or exists (select from dibs.job j where j.queue = q.name and j.gate = 2 and j.run_at <= statement_timestamp() offset 0)
            )
    ),
    (
        select coalesce(sum(d.numbackends) * 100 / nullif(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, 0), 0)::int
        from pg_catalog.pg_stat_database d
    ),
    current_setting('transaction_read_only')::boolean
