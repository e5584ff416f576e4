-- Purpose: take the time of a call, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now, and how far it is ahead of the system's clock.
-- Concurrency: the server's clock, when the statement began.
select datediff_big(microsecond, '19700101', sysutcdatetime()), 0;
