-- Purpose: list waiting and blocked jobs, or all that are not final, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, ?4 state, each '' for all; ?5 only ids
--   below this one; ?6 how many; ?7 how many jobs to look at; ?8 worker, ?9 a part of the last
--   error and ?10 of the payload, each '' for all; ?11 whether only jobs whose run_at has not come.
-- Columns out: whether the row only marks how far the list has looked; id; how many jobs it
--   waits for, 1,000 at most; the columns of live_job. If the list stops before it has ?6 jobs or all, one row is the last job
--   that it has looked at.
-- Concurrency: plain reads; locks nothing. Jobs are read along the primary key, in the order of the inner
--   list, until ?6 are found. If only queue and state narrow it, it looks at all.
declare
  @queue varbinary(255) = ?1,
  @kind varbinary(255) = ?2,
  @group varbinary(255) = ?3,
  @state varchar(16) = ?4,
  @before bigint = ?5,
  @n int = ?6,
  @look int = ?7,
  @worker varbinary(255) = ?8,
  @error nvarchar(max) = ?9,
  @text nvarchar(max) = ?10,
  @later tinyint = ?11;
declare @now bigint = datediff_big(microsecond, '19700101', sysutcdatetime());
declare @narrow tinyint = case when @kind = 0x and @group = 0x and @worker = 0x and @error = N'' and @text = N'' and @later = 0 then 0 else 1 end;
declare @looked table (id bigint primary key, nth bigint not null, matches tinyint not null);
if @narrow = 0
  insert into @looked (id, nth, matches)
  select x.id, 0, 1
  from (
    select top (@n) j.id
    from dibs_job j with (forceseek)
    where j.id < @before
      and (@queue = 0x or j.queue = @queue)
      and (@state = '' or @state = case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end)
    order by j.id desc
  ) x;
else
  insert into @looked (id, nth, matches)
  select
    x.id,
    row_number() over (order by x.id desc),
    case
      when @queue <> 0x and x.queue <> @queue then 0
      when @kind <> 0x and x.kind <> @kind then 0
      when @group <> 0x and (x.group_key is null or x.group_key <> @group) then 0
      when @worker <> 0x and (x.worker is null or x.worker <> @worker) then 0
      when @state <> '' and @state <> case when x.gate = 3 then 'running' when x.gate in (1, 5) then 'blocked' else 'waiting' end then 0
      when @later = 1 and x.run_at <= @now then 0
      when @text <> N'' and charindex(@text, x.payload) = 0 then 0
      when @error <> N'' and not exists (
        select 1
        from (
          select top (1) y.error
          from openjson(case when isjson(x.errors) = 1 then x.errors end) v
          cross apply openjson(case when isjson(v.value) = 1 then v.value end) with (error nvarchar(max) '$.error') y
          order by convert(int, v.[key]) desc
        ) e
        where charindex(@error, e.error collate Latin1_General_100_BIN2_UTF8) > 0
      ) then 0
      else 1
    end
  from (
    select top (@look) j.id, j.queue, j.kind, j.group_key, j.worker, j.errors, j.payload, j.gate, j.run_at
    from dibs_job j with (forceseek)
    where j.id < @before
    order by j.id desc
  ) x;
with matched (id) as (
  select top (@n) l.id
  from @looked l
  where l.matches = 1
  order by l.id desc
), page (id, searched) as (
  select m.id, 0
  from matched m
  union all
  select l.id, 1
  from @looked l
  where l.nth = @look and (select count(*) from matched) < @n
)
select
  p.searched,
  p.id as at,
  (select count(*) from (select top (1000) 1 as one from dibs_edge e where e.child = p.id and e.stage = 1) w),
  v.*
from page p
join dibs_live_job v on v.id = p.id
order by p.id desc, p.searched;
