-- Purpose: find the due jobs with turns that a claim takes first from a fair queue.
-- Parameters: ?1 queue, ?2 how many, ?3 now, ?4 a JSON array of kinds or null for all.
-- Columns out: id, turn.
-- Concurrency: it locks the jobs, and passes over those that others have locked; claim_fair.sql looks again at what it takes.
select j.id, j.turn
from dibs_job j force index (fair)
where j.queue = ?1 and j.fair = 0 and j.turn is not null
    and j.run_at <= ?3
    and (?4 is null or json_contains(?4, json_quote(convert(j.kind using utf8mb4))))
    and (j.group_key is null or not exists (
      select 1
      from dibs_wake w
      where w.queue = ?1 and w.group_key = j.group_key and w.not_before <= ?3
    ))
    order by j.turn, j.admitted, j.id
limit ?2
for update skip locked
