-- Purpose: read the time, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now.
-- Concurrency: a plain read.
select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
