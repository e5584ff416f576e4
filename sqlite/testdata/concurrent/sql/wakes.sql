-- Purpose: read the wake rows of a queue.
-- Parameters: ?1 queue, ?2 how many.
-- Columns out: id, group.
-- Concurrency: in the turn to admit, so nobody else deletes them. Those that come later stay.
select id, group_key
from dibs_wake
where queue = ?1
order by id
limit ?2
