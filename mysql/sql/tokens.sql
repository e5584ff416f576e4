-- Purpose: read the tokens of running jobs, locked or not.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, end of the lease.
-- Concurrency: a plain read, which waits for nobody.
select j.id, j.token, j.lease_until
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
where j.token is not null
