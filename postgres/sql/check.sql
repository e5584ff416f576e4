-- Purpose: find single jobs that break an invariant; repairable.sql finds wrong counts and
--   groups.
-- Parameters: none.
-- Columns out: finding, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
-- The errors column may hold any JSON after a change by hand. A JSON path treats a value
-- that is no array as an array of one element.
with kept as (
    select id, errors from dibs.job where errors is not null
    union all
    select id, errors from dibs.finished where errors is not null
)
select format('job %s: token and lease do not go together', id)
from dibs.job
where (token is null) <> (lease_until is null)
union all
select format('job %s: its lease is longer than any that a store gives', id)
from dibs.job
where lease_until > (statement_timestamp() + interval '25 hours')
union all
select format('job %s: running, but in gate %s', id, gate)
from dibs.job
where token is not null and not (gate in (0, 3))
union all
select format('job %s: not running, but in gate 3', id)
from dibs.job
where token is null and gate = 3
union all
select format('job %s: has no group, but is in gate %s', id, gate)
from dibs.job
where coalesce(group_key, '') = '' and gate in (1, 2)
union all
select format('job %s: gate %s is none', id, gate)
from dibs.job
where not (gate in (0, 1, 2, 3, 5))
union all
select format('job %s: priority %s is below 0', id, priority)
from dibs.job
where priority < 0
union all
select format('job %s: its queue or kind has no name: end it by "dibs cancel %s", and enqueue it again', id, id)
from dibs.job
where queue = '' or kind = ''
union all
select format('job %s: holds a unique key, but has none', id)
from dibs.job
where unique_held and unique_key is null
union all
select format('job %s: %s is no state', id, state)
from dibs.finished
where not (state in ('completed', 'dead', 'cancelled'))
union all
select format('queue %s: has no row in the table turn, so nobody claims from it', name)
from dibs.queue q
where not exists (select from dibs.turn t where t.queue = q.name)
union all
select format('job %s: running, but in no claim', j.id)
from dibs.job j
where j.token is not null
    and not exists (select from dibs.claim c where c.token = j.token and j.id = any (c.ids))
union all
select format('job %s: its claim is looked at %s after its lease ends', j.id, case
    when isfinite(c.check_at) and isfinite(j.lease_until) then (c.check_at - greatest(j.lease_until, statement_timestamp()))::text
    else 'long'
end)
from dibs.job j
join dibs.claim c on c.token = j.token
where c.check_at > case when j.lease_until > statement_timestamp() then j.lease_until else statement_timestamp() + interval '1 second' end
union all
select format('job %s: live and finished', j.id)
from dibs.job j
join dibs.finished f on f.id = j.id
union all
select format('job %s: its payload is missing', k.id)
from (
    select id from dibs.job where payload is null
    union all
    select id from dibs.finished where payload is null
) k
where not exists (select from dibs.payload p where p.id = k.id)
union all
select format('job %s: %s attempts count, %s are allowed', id, attempt::bigint - excused, max_attempts)
from dibs.job
where (attempt::bigint - excused) > max_attempts or ((attempt::bigint - excused) >= max_attempts and token is null)
union all
select format('job %s: it was claimed %s times, of which %s do not count', id, attempt, excused)
from dibs.job
where attempt < 0 or excused < 0 or excused > attempt
union all
select format('job %s: unique key held by more than one job', min(id))
from dibs.job
where unique_held
group by queue, unique_key
having count(*) > 1
union all
select format('job %s: %s errors kept', id, jsonb_array_length(jsonb_path_query_array(errors, '$[*]')))
from kept
where jsonb_array_length(jsonb_path_query_array(errors, '$[*]')) > 10
union all
select format('job %s: its kept errors are damaged', id)
from kept
where errors <> jsonb_path_query_array(errors, '$[*] ? (@.attempt.type() == "number" && @.at.type() == "string" && @.error.type() == "string")')
union all
select format('job %s: its queue %s has no settings', id, queue)
from dibs.job j
where not exists (select from dibs.queue q where q.name = j.queue)
    and not exists (select from dibs.wake_list w where w.queue = j.queue)
union all
select format('job %s: waits for job %s, which is gone', e.child, e.parent)
from dibs.edge e
join dibs.job j on j.id = e.child and j.gate = 5
where e.open
    and not exists (select from dibs.job p where p.id = e.parent)
    and not exists (select from dibs.finished f where f.id = e.parent)
    and not exists (select from dibs.ended_list l where e.child = any (l.ids) or e.parent = any (l.ids))
union all
select format('job %s: waits for job %s, which has ended', e.child, e.parent)
from dibs.edge e
join dibs.job j on j.id = e.child and j.gate = 5
where e.open
    and exists (select from dibs.finished f where f.id = e.parent)
    and not exists (select from dibs.ended_list l where e.child = any (l.ids) or e.parent = any (l.ids))
union all
select format('job %s: waits for job %s, which does not know it', e.child, e.parent)
from dibs.edge e
join dibs.job j on j.id = e.child and j.gate = 5
join dibs.job p on p.id = e.parent and not p.followed
where e.open and not exists (select from dibs.ended_list l where e.child = any (l.ids) or e.parent = any (l.ids))
union all
select format('job %s: waits for others, and for none', j.id)
from dibs.job j
where j.gate = 5
    and not exists (select from dibs.edge e where e.child = j.id and e.open)
    and not exists (select from dibs.ended_list l where j.id = any (l.ids))
