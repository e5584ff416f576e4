-- Purpose: have what comes after a job come after those too that the job's end has added.
-- Parameters: ?1 a JSON array of objects: id of the added job, parent; ?2 a JSON array of the ids of all that the call has
--   added, which inherit nothing; ?3 whether the added jobs come after older ones.
-- Columns out: none.
-- Concurrency: in the transaction that writes the end, before it closes edges (close_edges.sql).
-- An edge is at the stage of that from the job: what has started or ended stays so, and waits if it is requeued.
-- Those that need the job failed are not among them: they are cancelled, as it is completed. Nor are, of jobs that come
-- after older ones, those that one of them comes after, at any distance: they might wait for each other. What is above the
-- job itself is none of them.
declare
  @heirs nvarchar(max) = ?1,
  @added nvarchar(max) = ?2,
  @late tinyint = ?3;
declare @above table (job bigint not null, parent bigint not null, depth int not null, primary key (job, parent));
declare @depth int = 0;
if @late = 1
  insert into @above (job, parent, depth)
  select distinct l.id, l.parent, 0
  from openjson(@heirs) with (id bigint '$.id', parent bigint '$.parent') l;
while exists (select 1 from @above where depth = @depth)
begin
  insert into @above (job, parent, depth)
  select distinct e.parent, a.parent, @depth + 1
  from @above a
  join dibs_edge e with (forceseek) on e.child = a.job
  where a.depth = @depth and e.parent <> a.parent
    and not exists (select 1 from @above b where b.job = e.parent and b.parent = a.parent)
  option (force order, loop join, maxdop 1);
  set @depth = @depth + 1;
end;
insert into dibs_edge (child, parent, need, stage)
select
  e.child,
  l.id,
  e.need,
  e.stage
from openjson(@heirs) with (id bigint '$.id', parent bigint '$.parent') l
join dibs_edge e with (index (by_parent), forceseek) on e.parent = l.parent
where e.need <> 'failed'
  and e.child not in (select i.id from openjson(@added) with (id bigint '$') i)
  and not exists (select 1 from @above a where a.job = e.child)
option (force order, loop join, maxdop 1);
