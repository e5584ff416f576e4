-- Purpose: tell whether anything was counted since the counts were last merged.
-- Parameters: none.
-- Columns out: the newest row's id.
-- Concurrency: a plain read.
select coalesce(max(id), 0)
from dibs.tally
