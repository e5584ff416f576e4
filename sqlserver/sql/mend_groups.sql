-- Purpose: look at some live jobs, and find the groups among them that have free places but
--   wait, or hold more places than they may, as after jobs were deleted or inserted by hand.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: queue, group.
-- Concurrency: in the transaction of the sweep, which then settles them. Groups with wake rows are settled anyway.
declare
  @after bigint = ?1,
  @n int = ?2;
select
  g.queue,
  g.group_key
from (
  select distinct l.queue, l.group_key
  from (
    select top (@n) j.queue, j.group_key, j.gate
    from dibs_job j with (forceseek)
    where j.id > @after
    order by j.id
  ) l
  where l.group_key is not null and l.gate in (0, 1)
) g
join dibs_queue q on q.name = g.queue
left join dibs_group_limit o on o.queue = g.queue and o.group_key = g.group_key
cross apply (
  select count(*) as n, count(case when p.place = 0 then 1 end) as waiting
  from dibs_job p with (index (place), forceseek)
  where p.queue = g.queue and p.place in (0, 3) and p.group_key = g.group_key
) h
where not exists (
    select 1
    from dibs_wake w
    where w.queue = g.queue and w.group_key = g.group_key
  )
  and (
    h.n < coalesce(o.places, q.group_limit)
    and exists (
      select 1
      from dibs_job b with (index (place), forceseek)
      where b.queue = g.queue and b.place = 1 and b.group_key = g.group_key
    )
    and not exists (
      select 1
      from dibs_rate r
      where r.queue = g.queue and r.group_key = g.group_key and r.held_until is not null
    )
    or h.n > coalesce(o.places, q.group_limit) and h.waiting > 0
  );
