-- Purpose: find the last turn that the waiting jobs of a group have.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: turn, 0 if they have none.
-- Concurrency: in the turn of an admission.
select coalesce(max(turn), 0)
from dibs_job
where queue = ?1 and group_key = ?2 and group_key is not null and gate in (0, 3) and gate = 0 and token is null
