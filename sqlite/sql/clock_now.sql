-- Purpose: read the time, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now.
-- Concurrency: a plain read; a write takes its time by clock.sql, which may be a little later.
select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
from dibs_clock
