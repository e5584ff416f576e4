-- Purpose: read the limits that groups have of their own.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group, places; no row of a group without a limit of its own.
-- Concurrency: a plain read of the transaction's snapshot.
select l.group_key, l.places
from json_each(?2) i
cross join dibs_group_limit l on l.queue = ?1 and l.group_key = i.value
