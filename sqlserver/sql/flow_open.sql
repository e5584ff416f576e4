-- Purpose: list jobs that a job waits for.
-- Parameters: ?1 the job that waits; ?2 how many are listed at most.
-- Columns out: id; what is needed of it: completed, ended or failed.
-- Concurrency: a plain read of one snapshot, by the open edges of the job; locks nothing. It reads 1,000 of them at most:
--   some are open though their jobs have ended, until these ends were looked at.
declare
  @child bigint = ?1,
  @n int = ?2;
select top (@n)
  e.parent,
  (select n.need from dibs_edge n where n.child = @child and n.parent = e.parent)
from (
  select top (1000) o.parent
  from dibs_edge o with (index (open_edge), forceseek)
  where o.child = @child and o.stage = 1
  order by o.parent
) e
where exists (select 1 from dibs_job j where j.id = e.parent)
order by e.parent;
