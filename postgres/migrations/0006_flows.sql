-- Jobs that come after others. See docs/design/0034-flows.md.
-- Compatible with programs that know version 1.
-- That holds until a job comes after another: those programs tell nobody that a followed job has
-- ended, and take gate 5 for damage.

-- flow is the least id of the call that has enqueued a job, if a job of that call comes after
-- another. followed says that others may come after it: whatever ends it then adds its id to ended_list.
alter table dibs.job
    add column flow bigint,
    add column followed boolean not null default false;

-- cause is the job because of which it was cancelled.
alter table dibs.finished
    add column flow bigint,
    add column cause bigint,
    add column followed boolean not null default false;

-- Jobs of a queue that wait for the jobs that they come after. Claims read none of them.
create index job_after on dibs.job (queue) where gate = 5;
create index finished_cause on dibs.finished (cause) where cause is not null;
-- The jobs of a flow, for those who look at it.
create index job_flow on dibs.job (flow, id) where flow is not null;
create index finished_flow on dibs.finished (flow) where flow is not null;

-- A job comes after another, whose end it needs. An edge is open until settle_close.sql has judged that end. It
-- is kept until the child is deleted.
create table dibs.edge (
    child  bigint not null,
    parent bigint not null,
    need   text collate "C" not null,
    open   boolean not null,
    primary key (child, parent),
    constraint edge_need_is_completed_ended_or_failed check (need in ('completed', 'ended', 'failed'))
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
create index edge_parent on dibs.edge (parent, open, child);
-- For the edges of a child. With "open::int" no statement that looks for those of a parent can use it: planned while
-- the table is empty, it would read all of them.
create index edge_open on dibs.edge (child, parent) where open::int = 1;

-- Jobs to look at: followed ones that have ended, and followers that wait for a job that was not followed when
-- they came. One row per statement; rows are only added, and settle_close.sql deletes them.
create table dibs.ended_list (
    id  bigint generated always as identity primary key,
    ids bigint[] not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Jobs as Get and List show them. The views live_job and ended_job stay as they are, for programs of earlier versions.
create view dibs.shown_live as
select
    j.id,
    j.queue,
    j.kind,
    case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state,
    coalesce(j.payload, w.payload) as payload,
    coalesce(j.metadata, w.metadata) as metadata,
    j.priority,
    j.run_at,
    j.attempt,
    j.excused,
    j.max_attempts,
    j.group_key,
    case when j.group_key is not null then coalesce(l.places, q.group_limit, 1) end as group_limit,
    case when j.unique_held or exists (
        select
        from dibs.unique_window u
        where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id and u.until > statement_timestamp()
    ) then j.unique_key end as unique_key,
    case when j.unique_held or exists (
        select
        from dibs.unique_window u
        where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id and u.until > statement_timestamp()
    ) then j.unique_until end as unique_until,
    j.worker,
    j.token,
    j.lease_until,
    j.cancel_requested,
    j.created_at,
    j.claimed_at,
    null::timestamptz as finished_at,
    j.errors::text as errors,
    null::text as result,
    j.progress::text as progress,
    case when j.token is null then (
        select max(h.at)
        from (
            select case when j.gate = 1 and r.group_key <> '' then r.held_until else r.not_before end as at
            from dibs.rate r
            where r.queue = j.queue and r.group_key in ('', j.group_key) and (r.group_key <> '' or q.rate_n > 0)
        ) h
        where h.at > statement_timestamp()
    ) end as held_until,
    (
        select u.until
        from dibs.unique_window u
        where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id and u.until > statement_timestamp()
    ) as unique_free_at,
    j.flow,
    null::bigint as cause
from dibs.job j
left join dibs.queue q on q.name = j.queue
left join dibs.group_limit l on l.queue = j.queue and l.group_key = j.group_key
left join lateral (
    select p.payload, p.metadata
    from dibs.payload p
    where j.payload is null and p.id = j.id
    offset 0
) w on true;

create view dibs.shown_ended as
select
    f.id,
    f.queue,
    f.kind,
    f.state,
    coalesce(f.payload, w.payload) as payload,
    coalesce(f.metadata, w.metadata) as metadata,
    f.priority,
    f.run_at,
    f.attempt,
    f.excused,
    f.max_attempts,
    f.group_key,
    case when f.group_key is not null then coalesce(l.places, q.group_limit, 1) end as group_limit,
    f.unique_key,
    f.unique_until,
    f.worker,
    null::uuid as token,
    null::timestamptz as lease_until,
    f.cancel_requested,
    f.created_at,
    f.claimed_at,
    f.finished_at,
    f.errors::text as errors,
    f.result,
    null::text as progress,
    null::timestamptz as held_until,
    (
        select u.until
        from dibs.unique_window u
        where u.queue = f.queue and u.unique_key = f.unique_key and u.job = f.id and u.until > statement_timestamp()
    ) as unique_free_at,
    f.flow,
    f.cause
from dibs.finished f
left join dibs.queue q on q.name = f.queue
left join dibs.group_limit l on l.queue = f.queue and l.group_key = f.group_key
left join lateral (
    select p.payload, p.metadata
    from dibs.payload p
    where f.payload is null and p.id = f.id
    offset 0
) w on true;
