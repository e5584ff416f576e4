-- Purpose: list the jobs of a flow that ended in a state, newest first.
-- Parameters: ?1 flow; ?2 id that those of the jobs are below; ?3 how many are listed at most; ?4 the state.
-- Columns out: id.
-- Concurrency: a plain read of an index that has only jobs of flows; locks nothing. It leaves out jobs that were
--   cancelled because another was completed: nobody needs them.
select f.id
from dibs_finished f force index (by_flow)
where f.flow = ?1
  and f.state = ?4
  and f.id < ?2
  and coalesce((select c.state from dibs_finished c where c.id = f.cause), '') <> 'completed'
order by f.id desc
limit ?3
