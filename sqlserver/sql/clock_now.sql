-- Purpose: read the time, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now.
-- Concurrency: a plain read.
select datediff_big(microsecond, '19700101', sysutcdatetime());
