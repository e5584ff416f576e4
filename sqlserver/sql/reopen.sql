-- Purpose: put finished jobs back among the live ones. All attempts are allowed again.
-- Parameters: ?1 a JSON array of objects: id, gate, holds, whether it holds its unique key, and keeps, whether it keeps its
--   run_at; ?2 run_at of the others.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of the finished rows. The keys are locked; those that jobs hold again are noted
--   with them.
declare
  @jobs nvarchar(max) = ?1,
  @now bigint = ?2;
declare @back table (id bigint primary key, gate tinyint not null, holds tinyint not null, keeps tinyint not null);
insert into @back (id, gate, holds, keeps)
select i.id, i.gate, i.holds, i.keeps
from openjson(@jobs) with (id bigint '$.id', gate tinyint '$.gate', holds bit '$.holds', keeps bit '$.keeps') i;
insert into dibs_job (
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  worker,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  flow,
  followed
)
select
  f.id,
  f.queue,
  f.kind,
  f.priority,
  case when i.keeps = 1 then f.run_at else @now end,
  i.gate,
  f.attempt,
  f.attempt,
  f.max_attempts,
  f.group_key,
  f.unique_key,
  f.unique_until,
  i.holds,
  f.worker,
  f.created_at,
  f.claimed_at,
  f.metadata,
  f.payload,
  f.errors,
  f.flow,
  case when exists (select 1 from dibs_edge e where e.parent = f.id) then 1 else 0 end
from @back i
join dibs_finished f with (forceseek) on f.id = i.id
option (force order, loop join, maxdop 1);
update k
set job = f.id
from @back i
join dibs_finished f with (forceseek) on f.id = i.id
join dibs_key k with (rowlock, updlock, forceseek) on k.queue = f.queue and k.unique_key = f.unique_key
where i.holds = 1
option (force order, loop join, maxdop 1);
