-- Purpose: list rows whose lease has ended.
-- Parameters: passed, a JSON array of keys to leave out.
-- Columns out: the keys of at most 1000 rows.
-- Concurrency: reads only.
select {{.Key}}
from {{.Table}} t
where {{.Late}}
and {{.NotPassed}}
limit 1000
