-- Purpose: give a group a rate of its own, or take it away: then the group follows its queue's rate
--   for groups, if there is one.
-- Parameters: $1 queue, $2 group, $3 n; 0 takes it away; $4 per in microseconds, $5 burst, $6 step
--   and $7 slack of its bucket in nanoseconds.
-- Columns out: none.
-- Concurrency: in the turn of lock_admit.sql, after use_group_rates.sql. What the group has saved
--   up, or owes, stays.
with gone as (
    delete from dibs.rate
    where queue = $1 and group_key = $2 and $3::int = 0
        and (select group_rate_n from dibs.queue where name = $1) = 0
), inherited as (
    update dibs.rate r
    set
        n = 0,
        per = '0',
        burst = 0,
        step_ns = q.group_step_ns,
        slack_ns = q.group_slack_ns,
        not_before = null,
        held_until = null
    from dibs.queue q
    where q.name = $1 and q.group_rate_n > 0 and r.queue = $1 and r.group_key = $2 and $3::int = 0
)
insert into dibs.rate (queue, group_key, n, per, burst, step_ns, slack_ns)
select $1, $2, $3::int, $4::bigint * interval '1 microsecond', $5, $6, $7
where $3::int > 0
on conflict (queue, group_key) do update
set
    n = excluded.n,
    per = excluded.per,
    burst = excluded.burst,
    step_ns = excluded.step_ns,
    slack_ns = excluded.slack_ns,
    not_before = null,
    held_until = null
