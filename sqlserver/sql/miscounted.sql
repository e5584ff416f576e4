-- Purpose: find out whether counts are wrong, from what shows it without counting rows: one is
--   below zero, or jobs are counted where there are none, as after rows were inserted or
--   deleted by hand.
-- Parameters: none.
-- Columns out: 1 if some are; repairable.sql says which.
-- Concurrency: in the transaction of the sweep, which has written its own changes of counts.
--   Reads the tally, which has few rows, and one entry of an index for each queue and state.
select case when exists (
    select 1
    from (
      select
        queue,
        sum(waiting) as waiting,
        sum(blocked) as blocked,
        sum(running) as running,
        sum(completed) as completed,
        sum(dead) as dead,
        sum(cancelled) as cancelled
      from dibs_tally
      group by queue
    ) t
    join dibs_queue q on q.name = t.queue
    where t.waiting < 0 or t.blocked < 0 or t.running < 0 or t.completed < 0 or t.dead < 0 or t.cancelled < 0
      or t.waiting > 0
        and not exists (select 1 from dibs_job j with (index (lane), forceseek) where j.queue = t.queue and j.gate in (0, 2))
      or t.blocked > 0
        and not exists (select 1 from dibs_job j with (index (lane), forceseek) where j.queue = t.queue and j.gate in (1, 5))
      or t.running > 0 and not exists (select 1 from dibs_claim c where c.queue = t.queue)
      or t.completed > 0
        and not exists (select 1 from dibs_finished f with (index (by_time), forceseek) where f.queue = t.queue and f.state = 'completed')
      or t.dead > 0
        and not exists (select 1 from dibs_finished f with (index (by_time), forceseek) where f.queue = t.queue and f.state = 'dead')
      or t.cancelled > 0
        and not exists (select 1 from dibs_finished f with (index (by_time), forceseek) where f.queue = t.queue and f.state = 'cancelled')
  ) then 1 else 0 end;
