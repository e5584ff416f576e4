-- Purpose: list running jobs, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 only ids below
--   this; ?5 how many; ?6 how many claimed jobs to look at; ?7 worker, ?8 a part of the last
--   error and ?9 of the payload, each '' for all.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   live_job. If the list stops before it has ?5 jobs or all, one row has the id of
--   the last job that it has looked at, which may have ended.
-- Concurrency: finds them in the log of claims instead of reading all live jobs, in one snapshot; locks
--   nothing. It looks at all claimed jobs, whatever ?6, as it has to sort them.
declare
  @queue varbinary(255) = ?1,
  @kind varbinary(255) = ?2,
  @group varbinary(255) = ?3,
  @before bigint = ?4,
  @n int = ?5,
  @look int = ?6,
  @worker varbinary(255) = ?7,
  @error nvarchar(max) = ?8,
  @text nvarchar(max) = ?9;
with found (id) as (
  select top (@n) x.id
  from dibs_claim c
  cross apply openjson(c.ids) with (id bigint '$') i
  join dibs_job x on x.id = i.id and x.token = c.token
  where x.id < @before
    and (@queue = 0x or x.queue = @queue)
    and (@kind = 0x or x.kind = @kind)
    and (@group = 0x or x.group_key = @group)
    and (@worker = 0x or x.worker = @worker)
    and (@text = N'' or charindex(@text, x.payload) > 0)
    and (@error = N'' or exists (
      select 1
      from (
        select top (1) y.error
        from openjson(case when isjson(x.errors) = 1 then x.errors end) v
        cross apply openjson(case when isjson(v.value) = 1 then v.value end) with (error nvarchar(max) '$.error') y
        order by convert(int, v.[key]) desc
      ) e
      where charindex(@error, e.error collate Latin1_General_100_BIN2_UTF8) > 0
    ))
    and @look > 0
  order by x.id desc
)
select 0, p.id as at, 0, v.*
from found p
join dibs_live_job v on v.id = p.id
order by p.id desc;
