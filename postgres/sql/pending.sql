-- Purpose: list queues in which grouped jobs wait to be admitted.
-- Parameters: none.
-- Columns out: queue.
-- Concurrency: a plain read; admitting itself takes a turn (turn_admit.sql).
select name
from dibs.queue
where grouped
    and (
        exists (select from dibs.wake w where w.queue = name offset 0)
        or exists (select from dibs.job j where j.queue = name and j.gate = 2 and j.run_at <= statement_timestamp() offset 0)
    )
