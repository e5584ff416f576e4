-- Purpose: find the queues from which a claim may find jobs now.
-- Parameters: ?1 a JSON array of queues, ?2 now, ?3 a JSON array of kinds or null for all.
-- Columns out: queue. Also one whose jobs a limit, a rate or a group's places keep waiting.
-- Concurrency: a plain read of the transaction's snapshot; locks nothing.
select q.name
from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i
straight_join dibs_queue q force index (primary) on q.name = i.name
where not q.paused and (
  exists (
    select 1
    from dibs_job j force index (lane)
    where j.queue = q.name and j.gate = 0 and j.run_at <= ?2
      and (?3 is null or json_contains(?3, json_quote(convert(j.kind using utf8mb4))))
  )
  or exists (
    select 1
    from dibs_job j force index (later)
    where j.place = 2 and j.queue = q.name and j.run_at <= ?2
  )
  or exists (
    select 1
    from dibs_wake w
    where w.queue = q.name and w.not_before <= ?2
  )
  or exists (
    select 1
    from dibs_rate r
    where r.queue = q.name and r.held_until <= ?2
  )
)
