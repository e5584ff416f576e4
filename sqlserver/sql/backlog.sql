-- Purpose: count the blocked jobs of each group of a queue that has any.
-- Parameters: ?1 queue; ?2 name that those of the groups come after; ?3 how many groups;
--   ?4 how many jobs of each are counted.
-- Columns out: group; how many of its jobs hold a place; how many are blocked.
-- Concurrency: plain reads, each of its own snapshot; locks nothing. It goes from group to group by the index of blocked
--   jobs, whatever their number.
declare
  @queue varbinary(255) = ?1,
  @after varbinary(255) = ?2,
  @groups int = ?3,
  @counted int = ?4;
declare @found table (name varbinary(255) primary key);
declare @name varbinary(255) = (
  select top (1) j.group_key
  from dibs_job j with (index (place), forceseek)
  where j.queue = @queue and j.place = 1 and j.group_key > @after
  order by j.group_key
);
declare @nth int = 0;
while @name is not null and @nth < @groups
begin
  insert into @found (name)
  values (@name);
  set @nth = @nth + 1;
  set @name = (
    select top (1) j.group_key
    from dibs_job j with (index (place), forceseek)
    where j.queue = @queue and j.place = 1 and j.group_key > @name
    order by j.group_key
  );
end;
select f.name, p.n, b.n
from @found f
cross apply (
  select count(*) as n
  from (
    select top (@counted) 1 as one
    from dibs_job j with (index (place), forceseek)
    where j.queue = @queue and j.place in (0, 3) and j.group_key = f.name
  ) x
) p
cross apply (
  select count(*) as n
  from (
    select top (@counted) 1 as one
    from dibs_job j with (index (place), forceseek)
    where j.queue = @queue and j.place = 1 and j.group_key = f.name
  ) x
) b
order by f.name;
