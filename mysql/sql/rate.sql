-- Purpose: read what a queue's or a group's rate has saved up.
-- Parameters: ?1 queue, ?2 group, empty for the queue itself.
-- Columns out: n, per in microseconds, burst (of a group), full_ns (package bucket).
-- Concurrency: in a turn.
select n, per, burst, full_ns
from dibs_rate
where queue = ?1 and group_key = ?2
