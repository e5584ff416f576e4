-- Purpose: find the due jobs with turns that a claim takes first from a fair queue.
-- Parameters: ?1 queue, ?2 how many, ?3 now, ?4 a JSON array of kinds or null for all.
-- Columns out: id, turn.
-- Concurrency: it locks the jobs, and passes over those that others have locked; claim_fair.sql looks again at what it takes.
select x.id, x.turn
from (
  select
    j.id,
    j.turn,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.gate = 0 and l.turn = j.turn and l.admitted = j.admitted and l.run_at <= ?3
        and l.kind = j.kind and l.group_key <=> j.group_key
      for update skip locked
    ) as locked
  from dibs_job j force index (fair)
  where j.queue = ?1 and j.fair = 0 and j.turn is not null
    and j.run_at <= ?3
    and (?4 is null or json_contains(?4, json_quote(convert(j.kind using utf8mb4))))
    and (j.group_key is null or not exists (
      select 1
      from dibs_wake w
      where w.queue = ?1 and w.group_key = j.group_key and w.not_before <= ?3
    ))
  having locked is not null
  order by j.turn, j.admitted, j.id
  limit ?2
) x
