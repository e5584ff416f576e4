-- Purpose: read what the rates of groups, or of a queue, have saved up.
-- Parameters: ?1 queue, ?2 a JSON array of groups, an empty one for the queue itself.
-- Columns out: group; n, per in microseconds, burst (of a group), full_ns (package bucket). No row of a group of which nothing is known.
-- Concurrency: the only write transaction of the file.
select r.group_key, r.n, r.per, r.burst, r.full_ns
from json_each(?2) i
cross join dibs_rate r on r.queue = ?1 and r.group_key = i.value
