-- Purpose: list the jobs of a flow that ended in a state, newest first.
-- Parameters: ?1 flow; ?2 id that those of the jobs are below; ?3 how many are listed at most; ?4 the state.
-- Columns out: id.
-- Concurrency: a plain read of an index that has only jobs of flows; locks nothing. It leaves out jobs that were
--   cancelled because another was completed: nobody needs them.
declare
  @flow bigint = ?1,
  @before bigint = ?2,
  @n int = ?3,
  @state varchar(16) = ?4;
select top (@n) f.id
from dibs_finished f with (index (by_flow), forceseek)
where f.flow = @flow
  and f.state = @state
  and f.id < @before
  and not exists (select 1 from dibs_finished c where c.id = f.cause and c.state = 'completed')
order by f.id desc;
