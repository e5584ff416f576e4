-- Purpose: read the tokens of running jobs, locked or not.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, end of the lease.
-- Concurrency: a plain read, which waits for nobody.
select id, token, lease_until
from dibs_job
where id in (select value from json_each(?1)) and token is not null
