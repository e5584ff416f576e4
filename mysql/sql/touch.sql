-- Purpose: change running jobs without an effect, so that of two transactions on two nodes of a cluster only one commits.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: the jobs are locked (held.sql). Their leases end a microsecond later.
update json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.lease_until = j.lease_until + 1
