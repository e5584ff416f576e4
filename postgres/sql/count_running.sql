-- Purpose: after a concurrency limit was set, move the queue's running jobs to
--   gate 3, where claims count them.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: runs in the turn of turn_claim.sql, when no claim without the limit
--   is under way any more, so none is missed.
with moved as (
    update dibs.job j
    set gate = 3
    from dibs.claim c, unnest(c.ids) as i (id)
    where current_setting('dibs_turn.claim', true) = 'true'
        and c.queue = $1 and j.id = i.id and j.token = c.token and j.gate = 0
)
update dibs.queue
set counted = true
where name = $1 and current_setting('dibs_turn.claim', true) = 'true'
