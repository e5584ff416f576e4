-- Purpose: log the claims that are missing of some running jobs, so that their leases end as
--   all others do.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: token of each job that had no claim.
-- Concurrency: in the transaction of the sweep. A claim writes jobs and its row in one
--   transaction, so a running job without one was damaged by hand.
declare
  @after bigint = ?1,
  @n int = ?2,
  @now bigint = ?3;
declare @lost table (
  id bigint primary key,
  token binary(16) not null,
  queue varbinary(255) not null,
  worker varbinary(255) not null,
  lease_until bigint not null
);
insert into @lost (id, token, queue, worker, lease_until)
select l.id, l.token, l.queue, coalesce(l.worker, 0x), l.lease_until
from (
  select top (@n) j.id, j.token, j.queue, j.worker, j.lease_until
  from dibs_job j with (forceseek)
  where j.id > @after
  order by j.id
) l
where l.token is not null and not exists (
    select 1
    from dibs_claim c
    where c.token = l.token and c.check_at <= @now + 90000000000
      and exists (select 1 from openjson(c.ids) with (id bigint '$') i where i.id = l.id)
  );
update c
set
  check_at = case when c.check_at < l.lease_until then c.check_at else l.lease_until end,
  ids = case
    when c.ids = '[]' then concat('[', l.ids, ']')
    else concat(left(c.ids, len(c.ids) - 1), ',', l.ids, ']')
  end
from (
  select token, min(lease_until) as lease_until, string_agg(convert(varchar(max), id) collate Latin1_General_100_BIN2_UTF8, ',') as ids
  from @lost
  group by token
) l
join dibs_claim c with (rowlock, updlock, forceseek) on c.token = l.token;
insert into dibs_claim (token, queue, worker, check_at, ids)
select l.token, min(l.queue), min(l.worker), min(l.lease_until), concat('[', string_agg(convert(varchar(max), l.id), ','), ']')
from @lost l
where not exists (select 1 from dibs_claim c where c.token = l.token)
group by l.token;
select token
from @lost;
