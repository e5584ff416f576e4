-- Purpose: take the turn to admit a queue's grouped jobs, until the transaction ends, if
--   there is anything to admit. The setting dibs_turn.admit is then true; it is false if
--   there is nothing, and busy if another process has the turn.
-- Parameters: $1 queue, $2 key of the advisory lock.
-- Columns out: 'true', 'false' or 'busy'.
-- Concurrency: one process at a time per queue decides who holds a group's places;
--   others go on without waiting. The statements after this one take new snapshots
--   and so see all that earlier holders of the turn committed.
select set_config('dibs_turn.admit', case
    when not (
        exists (select from dibs.wake where queue = $1)
        or exists (select from dibs.wake_list where queue = $1)
        -- for rates of groups {
        or exists (select from dibs.rate where queue = $1 and held_until <= statement_timestamp())
        -- }
        or exists (select from dibs.job where queue = $1 and gate = 2 and run_at <= statement_timestamp())
    ) then 'false'
    when pg_try_advisory_xact_lock($2) then 'true'
    else 'busy'
end, true)
