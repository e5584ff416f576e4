-- The first schema. See docs/design/0001-storage.md for why it has this shape.

-- "create schema if not exists" asks for the right to make schemas even where the schema exists.
do $$
begin
    if to_regnamespace('dibs') is null then
        create schema if not exists dibs;
    end if;
end
$$;

-- Programs that know version compatible_with may use the schema, even if they do not know this one.
create table dibs.migration (
    version         int primary key,
    compatible_with int not null,
    applied_at      timestamptz not null default now()
);

-- A queue's settings. version rises with every change; a claim names the version that
-- it was prepared for, and finds nothing if the queue has another. It begins with the time, so
-- that a queue that was deleted and made again has a version that the old one never had.
create table dibs.queue (
    name             text collate "C" primary key,
    version          bigint not null default (date_part('epoch', clock_timestamp()) * 1000000)::bigint,
    paused           boolean not null default false,
    concurrency      int not null default 0,
    rate_n           int not null default 0,
    rate_per         interval not null default '0',
    rate_burst       int not null default 0,
    group_limit      int not null default 1,
    -- a rate that each group has, unless it has one of its own; package bucket explains step and slack
    group_rate_n     int not null default 0,
    group_rate_per   interval not null default '0',
    group_rate_burst int not null default 0,
    group_step_ns    bigint not null default 0,
    group_slack_ns   bigint not null default 0,
    strict           boolean not null default false,
    claim_order      text not null default 'fifo',
    lease            interval not null default '10 seconds',
    job_timeout      interval not null default '0', -- how long an attempt may run; 0: no limit. extend.sql tells the workers
    max_attempts     int not null default 25,
    backoff_base     interval not null default '1 second',
    backoff_factor   double precision not null default 2,
    backoff_max      interval not null default '1 hour',
    backoff_jitter   double precision not null default 0.25,
    keep_completed   interval not null default '24 hours',
    keep_dead        interval not null default '336 hours',
    keep_cancelled   interval not null default '24 hours',
    payload_limit    int not null default 1048576,
    -- true once a job with a group was enqueued: only then must claims admit
    grouped          boolean not null default false,
    -- true once a group was given a rate: only then must claims look for those
    group_rates      boolean not null default false,
    -- with a concurrency limit: true while all running jobs are in gate 3; with that or a rate:
    -- null until no claim can be under way that began without it
    counted          boolean,
    constraint queue_name_is_1_to_255_bytes check (octet_length(name) between 1 and 255),
    constraint queue_concurrency_is_0_to_1000000 check (concurrency between 0 and 1000000),
    constraint queue_rate_is_n_per_1s_to_31days_with_burst check (
        (rate_n = 0 and rate_burst >= 0) or (rate_n between 1 and 1000000000 and rate_per between '1 second' and '744 hours' and rate_burst between 0 and 1000000000)
    ),
    constraint queue_group_limit_is_1_to_1000000 check (group_limit between 1 and 1000000),
    constraint queue_group_rate_is_n_per_1s_to_31days_with_burst check (
        (group_rate_n = 0 and group_rate_burst >= 0 and group_step_ns = 0)
        or (group_rate_n between 1 and 1000000000 and group_rate_per between '1 second' and '744 hours' and group_rate_burst between 0 and 1000000000
            and group_step_ns > 0 and group_slack_ns >= 0)
    ),
    constraint queue_claim_order_is_fifo_lifo_or_fair check (claim_order in ('fifo', 'lifo', 'fair')),
    constraint queue_lease_is_100ms_to_24h check (lease between '100 milliseconds' and '24 hours'),
    constraint queue_job_timeout_is_0_to_10years check (job_timeout between '0' and '87600 hours'),
    constraint queue_max_attempts_is_1_to_1000000 check (max_attempts between 1 and 1000000),
    constraint queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1 check (
        backoff_base >= '1 millisecond' and backoff_max between backoff_base and '87600 hours' and backoff_factor between 1 and 1000 and backoff_jitter between 0 and 1
    ),
    constraint queue_keeps_finished_jobs_for_0_to_10years check (
        keep_completed between '0' and '87600 hours' and keep_dead between '0' and '87600 hours' and keep_cancelled between '0' and '87600 hours'
    ),
    constraint queue_payload_limit_is_2_to_67108864 check (payload_limit between 2 and 67108864)
);

-- One row per queue, which claims lock: see turn_claim.sql. It has a table of its own, so
-- that a claim in a caller's open transaction never makes a change of settings wait.
create table dibs.turn (
    queue text collate "C" primary key
);

create table dibs.group_limit (
    queue     text collate "C" not null,
    group_key text collate "C" not null,
    places    int not null constraint group_limit_is_0_to_1000000 check (places between 0 and 1000000),
    primary key (queue, group_key)
);

-- What the rates of queues (in rows without a group) and of groups have saved up. Those of
-- queues are changed by claims in their turn, those of groups by admissions in theirs.
-- A row with a group and n = 0 is that of a group with its queue's rate. Its step and slack are
-- copies. Admissions make it, and delete it when all is saved up again.
create table dibs.rate (
    queue      text collate "C" not null,
    group_key  text collate "C" not null, -- empty: the queue itself, whose settings are in dibs.queue
    n          int not null default 0,
    per        interval not null default '0',
    burst      int not null default 0,
    step_ns    bigint not null default 0, -- package bucket explains these three
    slack_ns   bigint not null default 0,
    full_ns    bigint not null default 0,
    not_before timestamptz, -- no claim may start an unclaimed job earlier
    held_until timestamptz, -- of a group: when it is to be admitted anew, as it waits for its rate
    primary key (queue, group_key),
    constraint rate_is_n_per_1s_to_31days_with_burst check (n >= 0 and burst >= 0 and (n = 0 or per between '1 second' and '744 hours'))
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
create index rate_held on dibs.rate (queue, held_until) where held_until is not null;

-- Starts of jobs whose groups have rates, one row per claim: the next admission takes them from
-- what the groups have saved up.
create table dibs.start (
    queue  text collate "C" not null,
    id     bigint generated always as identity,
    at_ns  bigint not null,
    groups text[] collate "C" not null,
    primary key (queue, id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- A schedule enqueues a job at each of its ticks.
create table dibs.schedule (
    name      text collate "C" primary key,
    owner     text collate "C" not null, -- whose list it is in; empty: nobody's
    version   bigint not null, -- begins with the time when it was made
    settings  text not null, -- JSON, as programs read and write it
    payload   text not null, -- of its jobs
    metadata  text,
    paused    boolean not null,
    since     timestamptz not null, -- when its spec was set: intervals are counted from here
    next_at   timestamptz, -- null: no tick will come
    last_tick timestamptz,
    last_job  bigint,
    constraint schedule_settings_is_a_json_object check (json_typeof(settings::json) = 'object'),
    constraint schedule_payload_is_json check (payload::json is not null),
    constraint schedule_metadata_is_a_json_object check (json_typeof(metadata::json) = 'object'),
    constraint schedule_times_are_in_years_1970_to_9999 check (
        since >= '1970-01-01 00:00:00Z' and since < '10000-01-01 00:00:00Z' and next_at >= '1970-01-01 00:00:00Z' and next_at < '10000-01-01 00:00:00Z'
    )
);
create index schedule_next on dibs.schedule (next_at) where next_at is not null;

-- The register of workers: one row for each run of a worker. A row is small and written
-- every ten seconds, without a change of its index.
create table dibs.worker (
    id          uuid primary key,
    name        text collate "C" not null,
    host        text not null,
    pid         int not null,
    version     text not null,
    queues      text[] not null,
    kinds       text[], -- null: all
    concurrency int not null,
    state       text not null,
    since       timestamptz not null,
    seen_at     timestamptz not null,
    constraint worker_has_queues_and_kinds_without_null check (
        array_position(queues, null) is null and array_position(kinds, null) is null and array_ndims(queues) = 1 and array_ndims(kinds) = 1
    ),
    constraint worker_is_seen_at_finite_times check (isfinite(since) and isfinite(seen_at))
) with (
    fillfactor = 50
);

-- What people have changed by the pages and the HTTP API: about 10,000 changes, the newest.
create table dibs.audit (
    id   bigint generated always as identity primary key,
    at   timestamptz not null default statement_timestamp(),
    who  text not null,
    did  text not null,
    what text not null,
    n    bigint not null,
    constraint audit_at_is_in_years_1_to_9999 check (at >= '0001-01-01 00:00:00Z' and at < '10000-01-01 00:00:00Z')
);

create sequence dibs.job_id;
create sequence dibs.admission;

-- Live jobs. Every statement that writes here reads the texts of all checks anew, 3 us each,
-- so there is only one. What it does not refuse, readers bear and mend.sql mends.
-- No index contains the columns that claim and extend change (token,
-- lease_until, attempt, worker, claimed_at), and pages are filled by half, so these are
-- heap-only updates.
-- flow is the least id of the call that has enqueued a job, if a job of that call comes after
-- another. followed says that others may come after it: whatever ends it then adds its id to ended_list.
-- In a queue with order fair, an admission gives each job its turn, and the number of the
-- admission. Claims go by turn, then admitted. Null: the job has none, and comes last.
-- stepped is true once the job has a step; null before, which takes no place in a row. A finish
-- that keeps no job deletes the steps of those jobs alone.
create table dibs.job (
    id               bigint primary key default nextval('dibs.job_id'),
    run_at           timestamptz not null,
    created_at       timestamptz not null,
    claimed_at       timestamptz,
    lease_until      timestamptz,
    token            uuid,
    flow             bigint,
    turn             bigint,
    admitted         bigint,
    attempt          int not null default 0,
    excused          int not null default 0,
    max_attempts     int not null,
    priority         smallint not null,
    gate             smallint not null,
    unique_held      boolean not null default false,
    cancel_requested boolean not null default false,
    returned         boolean not null default false, -- put back at its old place
    followed         boolean not null default false,
    stepped          boolean,
    queue            text collate "C" not null,
    kind             text collate "C" not null,
    group_key        text collate "C",
    unique_key       text collate "C",
    unique_until     text,
    worker           text,
    payload          text, -- null: it is in dibs.payload, with the metadata
    metadata         text,
    errors           jsonb,
    progress         jsonb, -- of the attempt that it names
    -- No call takes another id. run_at is never infinite: such a job would not be claimed, and no
    -- program could print it. A queue of another name cannot have settings.
    constraint job_id_from_1_on_run_at_in_years_1_to_9999_queue_1_to_255_bytes check (
        id > 0 and run_at >= '0001-01-01 00:00:00Z' and run_at < '10000-01-01 00:00:00Z' and octet_length(queue) between 1 and 255
    )
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- The ready index. Only claims may scan it: see claim.sql.
create index job_ready on dibs.job (queue, priority, run_at, id) where gate = 0;
-- Jobs that were put back, maybe below a mark: see marks.go.
create index job_returned on dibs.job (queue, priority, run_at, id) where returned;
-- Jobs that wait for their group's turn, in order.
create index job_blocked on dibs.job (queue, group_key, priority, run_at, id) where gate = 1;
-- Grouped jobs that are not due yet.
create index job_later on dibs.job (queue, run_at) where gate = 2;
-- Running jobs of queues with a concurrency limit.
create index job_counted on dibs.job (queue) where gate = 3;
-- Grouped jobs that hold a place of their group.
create index job_place on dibs.job (queue, group_key) where gate in (0, 3) and group_key is not null;
-- Jobs of a queue that wait for the jobs that they come after. Claims read none of them.
create index job_after on dibs.job (queue) where gate = 5;
-- The jobs of a flow, for those who look at it.
create index job_flow on dibs.job (flow, id) where flow is not null;
-- The ready index of a queue whose groups take turns.
create index job_fair on dibs.job (queue, turn, admitted, id) where gate = 0 and turn is not null;
create unique index job_unique on dibs.job (queue, unique_key) where unique_held;

-- Unique keys that are held for a period, whatever becomes of the job.
create table dibs.unique_window (
    queue      text collate "C" not null,
    unique_key text collate "C" not null,
    until      timestamptz not null, -- in the past: the row was made to be locked, or the period has passed
    job        bigint, -- which may have been deleted
    primary key (queue, unique_key)
);
create index unique_window_by_end on dibs.unique_window (until);

-- Payloads and metadata that are wide, of live and ended jobs: written once, where a job's
-- row is written with each claim and each end.
create table dibs.payload (
    id       bigint primary key,
    payload  text not null,
    metadata text
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);

-- Completed, dead and cancelled jobs, until their queue's retention ends. cause is the job
-- because of which it was cancelled.
create table dibs.finished (
    id               bigint primary key,
    state            text collate "C" not null,
    finished_at      timestamptz not null,
    run_at           timestamptz not null,
    created_at       timestamptz not null,
    claimed_at       timestamptz,
    flow             bigint,
    cause            bigint,
    attempt          int not null,
    excused          int not null,
    max_attempts     int not null,
    priority         smallint not null,
    cancel_requested boolean not null,
    followed         boolean not null default false,
    queue            text collate "C" not null,
    kind             text collate "C" not null,
    group_key        text collate "C",
    unique_key       text collate "C",
    unique_until     text,
    worker           text,
    payload          text, -- as in dibs.job
    metadata         text,
    errors           jsonb,
    result           text,
    -- Only what no finish can break: created_at and claimed_at come from a live job as they are.
    constraint finished_run_at_and_finished_at_are_in_years_1_to_9999 check (
        run_at >= '0001-01-01 00:00:00Z' and run_at < '10000-01-01 00:00:00Z' and finished_at >= '0001-01-01 00:00:00Z' and finished_at < '10000-01-01 00:00:00Z'
    )
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);

-- What the attempts of jobs have done, one row for each step.
create table dibs.step (
    job     bigint not null, -- live or finished
    name    text collate "C" not null,
    done_at timestamptz not null default clock_timestamp(),
    value   text not null, -- JSON
    primary key (job, name)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- Compressing with lz4 takes a quarter of the time; some servers are built without it.
do $$
begin
    alter table dibs.payload alter payload set compression lz4, alter metadata set compression lz4;
    alter table dibs.finished alter result set compression lz4;
    alter table dibs.step alter value set compression lz4;
exception when feature_not_supported then
    null;
end
$$;
create index finished_by_time on dibs.finished (queue, state, finished_at, id);
create index finished_cause on dibs.finished (cause) where cause is not null;
-- With the state, a look at a large flow finds the few jobs that have died among those that are completed.
create index finished_flow on dibs.finished (flow, state, id) where flow is not null;

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

-- The log of claims, one row per claim call: finds expired leases and a worker's jobs.
create table dibs.claim (
    token    uuid primary key,
    check_at timestamptz not null,
    queue    text collate "C" not null,
    worker   text not null,
    ids      bigint[] not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
create index claim_by_check on dibs.claim (check_at);
-- Compressing the ids of a large claim takes longer than writing them.
alter table dibs.claim alter ids set storage external;

-- Groups that may have a free place or a new job. Append-only, so that no open
-- transaction holds a lock on a group.
create table dibs.wake (
    id        bigint generated always as identity primary key,
    queue     text collate "C" not null,
    group_key text collate "C" not null,
    -- admitted again only because another transaction had locked a blocked job of the group: its
    -- other jobs keep the places that they were given, so claims do not wait for the next admission
    again     boolean not null default false
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
create index wake_by_group on dibs.wake (queue, group_key);

-- The same with one row per statement of enqueue and complete, so that no job needs a
-- row and an index entry of its own.
create table dibs.wake_list (
    queue  text collate "C" not null,
    id     bigint generated always as identity,
    groups text[] collate "C" not null,
    primary key (queue, id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Turns that claims have come to: the greatest of a queue is its turn. Rows are only added, and the others
-- deleted, so that no claim waits for another, and one look at the index's end finds the greatest.
create table dibs.reached (
    queue text collate "C" not null,
    turn  bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index reached_by_turn on dibs.reached (queue, turn);

-- Changes of counts, one row per statement and queue; null means no change. The
-- sum of a column from waiting to cancelled over a queue's rows is its count. The sweep merges
-- them, and moves the other columns to the table history. It has no constraint, which every
-- enqueue, claim and finish would pay for: who reads it bears any time and any count.
create table dibs.tally (
    id        bigint generated always as identity primary key,
    queue     text collate "C" not null,
    at        timestamptz not null default statement_timestamp(),
    waiting   bigint,
    blocked   bigint,
    running   bigint,
    completed bigint,
    dead      bigint,
    cancelled bigint,
    enqueued  bigint,
    claimed   bigint,
    succeeded bigint,
    failed    bigint,
    died      bigint,
    wait_us   bigint,
    run_us    bigint
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- What happened in a minute in a queue; queue '' is the sum of all queues. The sweep adds rows
-- of tally to it, each once, and deletes rows older than two hours.
create table dibs.history (
    minute    timestamptz not null,
    queue     text collate "C" not null,
    enqueued  bigint not null,
    claimed   bigint not null,
    succeeded bigint not null,
    failed    bigint not null,
    died      bigint not null,
    wait_us   bigint not null,
    run_us    bigint not null,
    primary key (minute, queue),
    constraint history_minute_is_in_years_1_to_9999_sums_are_below_1e18 check (
        minute >= '0001-01-01 00:00:00Z' and minute < '10000-01-01 00:00:00Z'
        and greatest(enqueued, claimed, succeeded, failed, died, wait_us, run_us) < 1000000000000000000
        and least(enqueued, claimed, succeeded, failed, died, wait_us, run_us) > -1000000000000000000
    )
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- Jobs as Get and List show them; the live and the ended ones have the same columns. A live job
-- shows its unique key while it holds it.
create view dibs.live_job as
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

create view dibs.ended_job as
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
