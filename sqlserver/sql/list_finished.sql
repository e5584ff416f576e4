-- Purpose: list jobs of one final state, last finished first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 state; ?5 time, or null for all, and ?6 id
--   before which the list begins; ?7 how many; ?8 how many jobs to look at; ?9 worker, ?10 a
--   part of the last error and ?11 of the payload, each '' for all; ?12 time of the first end.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   ended_job. If the list stops before it has ?7 jobs or all, one row is the first
--   job that it has not looked at.
-- Concurrency: plain reads of finished rows only; locks nothing. Jobs are read along the index by time, of a queue or of all. If
--   anything but queue, state and time narrows the list, it looks at ?8 jobs.
declare
  @queue varbinary(255) = ?1,
  @kind varbinary(255) = ?2,
  @group varbinary(255) = ?3,
  @state varchar(16) = ?4,
  @before bigint = ?5,
  @before_id bigint = ?6,
  @n int = ?7,
  @look int = ?8,
  @worker varbinary(255) = ?9,
  @error nvarchar(max) = ?10,
  @text nvarchar(max) = ?11,
  @since bigint = ?12;
declare @looked table (id bigint primary key, nth bigint not null, matches tinyint not null);
declare @narrow tinyint = case when @kind = 0x and @group = 0x and @worker = 0x and @error = N'' and @text = N'' then 0 else 1 end;
declare @most int = case when @narrow = 1 then @look + 1 else @n end;
set @before_id = case when @before is null then 0 else @before_id end;
set @before = coalesce(@before, 9223372036854775807);
if @queue = 0x
  insert into @looked (id, nth, matches)
  select x.id, row_number() over (order by x.finished_at desc, x.id desc), 1
  from (
    select top (@most) f.id, f.finished_at
    from dibs_finished f with (index (by_end), forceseek)
    where f.state = @state and f.finished_at <= @before and f.finished_at >= @since
      and (f.finished_at < @before or f.id < @before_id)
    order by f.finished_at desc, f.id desc
  ) x;
else
  insert into @looked (id, nth, matches)
  select x.id, row_number() over (order by x.finished_at desc, x.id desc), 1
  from (
    select top (@most) f.id, f.finished_at
    from dibs_finished f with (index (by_time), forceseek)
    where f.queue = @queue and f.state = @state and f.finished_at <= @before and f.finished_at >= @since
      and (f.finished_at < @before or f.id < @before_id)
    order by f.finished_at desc, f.id desc
  ) x;
if @narrow = 1
  update l
  set matches = 0
  from @looked l
  left join dibs_finished f on f.id = l.id
  where f.id is null
    or @kind <> 0x and f.kind <> @kind
    or @group <> 0x and (f.group_key is null or f.group_key <> @group)
    or @worker <> 0x and (f.worker is null or f.worker <> @worker)
    or @text <> N'' and charindex(@text, f.payload) = 0
    or @error <> N'' and not exists (
      select 1
      from (
        select top (1) x.error
        from openjson(case when isjson(f.errors) = 1 then f.errors end) v
        cross apply openjson(case when isjson(v.value) = 1 then v.value end) with (error nvarchar(max) '$.error') x
        order by convert(int, v.[key]) desc
      ) e
      where charindex(@error, e.error collate Latin1_General_100_BIN2_UTF8) > 0
    );
with page (id, nth, searched) as (
  select top (@n) l.id, l.nth, case when @narrow = 1 and l.nth = @look + 1 then 1 else 0 end
  from @looked l
  where l.matches = 1 or @narrow = 1 and l.nth = @look + 1
  order by l.nth
)
select p.searched, p.id as at, 0, v.*
from page p
join dibs_ended_job v on v.id = p.id
order by p.nth;
