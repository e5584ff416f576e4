-- Purpose: find the next tick of any schedule.
-- Parameters: none.
-- Columns out: time; no row if none will come.
-- Concurrency: a plain read for the timer; the first entry of an index.
select top (1) next_at
from dibs_schedule
where next_at is not null
order by next_at;
