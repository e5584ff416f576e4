-- Purpose: take the transaction's time, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now.
-- Concurrency: the only write transaction of the file; time never runs backwards in
--   it. SQLite's clock counts milliseconds, and a real cannot hold them exactly, so
--   they are rounded before they become microseconds.
update dibs_clock
set now = max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
where one = 1
returning now
