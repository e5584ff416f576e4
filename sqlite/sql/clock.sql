-- Purpose: take the transaction's time, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now.
-- Concurrency: the only write transaction of the file; each has a later time than the
--   one before, so what was enqueued first has the earlier run_at. SQLite's clock counts
--   milliseconds, and a real cannot hold them exactly, so they are rounded before they
--   become microseconds.
update dibs_clock
set now = max(now + 1, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
where one = 1
returning now
