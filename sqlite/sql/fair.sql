-- Purpose: find the due jobs with turns that a claim takes first from a fair queue.
-- Parameters: ?1 queue, ?2 how many, ?3 now, ?4 a JSON array of kinds or null for all.
-- Columns out: id, turn.
-- Concurrency: a plain read; claim_fair.sql looks again at what it takes.
select id, turn
from dibs_job indexed by dibs_job_fair
where queue = ?1 and gate = 0 and token is null and turn is not null
  and run_at <= ?3
  and (?4 is null or kind in (select value from json_each(?4)))
order by turn, admitted, id
limit ?2
