-- Purpose: take places of a group from waiting jobs: from all loose ones (places.sql), and
--   from the last of the started ones if the limit has become too low for them.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict, ?5 how many
--   started ones there is room for.
-- Columns out: gate; whether the job was a started one; the turn and the admission of a fair queue, or null.
-- Concurrency: admit.sql gives the places to the first jobs in the same transaction.
update dibs_job
set gate = case when run_at <= ?3 then 1 else 2 end
where id in (
  select id
  from (
    select
      id,
      ?4 and attempt > 0 as started,
      row_number() over (partition by ?4 and attempt > 0 order by priority, run_at, id) as nth
    from dibs_job
    where queue = ?1 and group_key = ?2 and group_key is not null and gate in (0, 3)
      and token is null
  )
  where not started or nth > ?5
)
returning gate, ?4 and attempt > 0, turn, admitted
