-- Purpose: find the last turn that the waiting jobs of a group have.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: turn, 0 if they have none.
-- Concurrency: in the turn to admit.
select coalesce(max(turn), 0)
from dibs_job force index (place)
where queue = ?1 and group_key = ?2 and place = 0
