-- Purpose: make the row of a turn, unless it exists.
-- Parameters: ?1 turn, ?2 queue.
-- Columns out: none.
-- Concurrency: beside the transaction that needs it, so that nobody waits for its end. A row that
--   others have just made it only shares for a moment.
insert ignore into dibs_turn (what, queue)
select ?1, ?2
from (select 1 as one) o
where not exists (select 1 from dibs_turn t where t.what = ?1 and (t.queue = ?2 or ?1 = 'database'))
