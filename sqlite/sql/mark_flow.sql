-- Purpose: note the flow of new jobs, and whether others come after them.
-- Parameters: ?1 a JSON array of objects: id, followed; ?2 flow.
-- Columns out: none.
-- Concurrency: in the transaction that has inserted the jobs.
-- The insert does not do it, so that it stays as it is for jobs of no flow.
update dibs_job
set
  flow = ?2,
  followed = l.followed
from (
  select
    value ->> 'id' as id,
    value ->> 'followed' as followed
  from jsonb_each(?1)
) l
where dibs_job.id = l.id
