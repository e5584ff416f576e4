-- Purpose: look at some live jobs, and find the groups among them that have free places but
--   wait, or hold more places than they may, as after jobs were deleted or inserted by hand.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: queue, group.
-- Concurrency: in the transaction of the sweep, which then settles them. Groups with wake rows are settled anyway.
select
  g.queue,
  g.group_key
from (
  select distinct l.queue, l.group_key
  from (
    select queue, group_key, gate
    from dibs_job
    where id > ?1
    order by id
    limit ?2
  ) l
  where l.group_key is not null and l.gate in (0, 1)
) g
join dibs_queue q on q.name = g.queue
left join dibs_group_limit l on l.queue = g.queue and l.group_key = g.group_key
where not exists (
    select 1
    from dibs_wake w
    where w.queue = g.queue and w.group_key = g.group_key
  )
  and case
    when (
        (select count(*) from dibs_job p force index (place) where p.queue = g.queue and p.place = 0 and p.group_key = g.group_key)
        + (select count(*) from dibs_job p force index (place) where p.queue = g.queue and p.place = 3 and p.group_key = g.group_key)
      ) < coalesce(l.places, q.group_limit)
      then exists (
          select 1
          from dibs_job b force index (place)
          where b.queue = g.queue and b.place = 1 and b.group_key = g.group_key
        )
        and not exists (
          select 1
          from dibs_rate r
          where r.queue = g.queue and r.group_key = g.group_key and r.held_until is not null
        )
    else (
        (select count(*) from dibs_job p force index (place) where p.queue = g.queue and p.place = 0 and p.group_key = g.group_key)
        + (select count(*) from dibs_job p force index (place) where p.queue = g.queue and p.place = 3 and p.group_key = g.group_key)
      ) > coalesce(l.places, q.group_limit) and exists (
        select 1
        from dibs_job p force index (place)
        where p.queue = g.queue and p.group_key = g.group_key and p.place = 0
      )
  end
