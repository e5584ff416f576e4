-- Purpose: find the queues from which a claim may find jobs now.
-- Parameters: ?1 a JSON array of queues, ?2 now, ?3 a JSON array of kinds or null for all.
-- Columns out: queue. Also one whose jobs a limit, a rate or a group's places keep waiting.
-- Concurrency: plain reads; locks nothing.
-- Two index seeks for each priority in use, up to the first with a due job, and a few for each queue.
declare
  @queues nvarchar(max) = ?1,
  @now bigint = ?2,
  @kinds nvarchar(max) = ?3;
declare @asked table (name varbinary(255) primary key, lane smallint null, due tinyint not null);
insert into @asked (name, lane, due)
select
  q.name,
  (
    select top (1) j.priority
    from dibs_job j with (index (lane), forceseek)
    where j.queue = q.name and j.gate = 0
    order by j.priority
  ),
  case
    when exists (
      select 1
      from dibs_job j with (index (later), forceseek)
      where j.place = 2 and j.queue = q.name and j.run_at <= @now
    ) then 1
    when exists (
      select 1
      from dibs_wake w with (index (by_group), forceseek)
      where w.queue = q.name and w.not_before <= @now
    ) then 1
    when exists (
      select 1
      from dibs_rate r with (index (held), forceseek)
      where r.queue = q.name and r.held_until <= @now
    ) then 1
    else 0
  end
from (
  select distinct convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) as name
  from openjson(@queues) v
) i
join dibs_queue q with (forceseek) on q.name = i.name
where q.paused = 0;
while exists (select 1 from @asked where due = 0 and lane is not null)
begin
  update a
  set
    due = case when exists (
        select 1
        from dibs_job j with (index (lane), forceseek)
        where j.queue = a.name and j.gate = 0 and j.priority = a.lane and j.run_at <= @now
          and (@kinds is null or j.kind in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@kinds) v))
      ) then 1 else 0 end,
    lane = (
      select top (1) j.priority
      from dibs_job j with (index (lane), forceseek)
      where j.queue = a.name and j.gate = 0 and j.priority > a.lane
      order by j.priority
    )
  from @asked a
  where a.due = 0 and a.lane is not null;
end;
select name
from @asked
where due = 1;
