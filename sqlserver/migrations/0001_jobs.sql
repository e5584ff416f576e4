-- 0001: jobs, what surrounds them, and the indexes that claims need.
-- Times are microseconds since 1970 in UTC, durations are microseconds; flags are 0 or 1. Names are bytes, which have no
-- collation: comparisons of texts ignore blanks at their ends, whatever the collation. Texts and words are UTF-8, in a
-- binary collation, whatever that of the database is.
-- No lock of rows becomes one of a table (lock_escalation), as statements pass over locked rows, and not over tables.
-- There are no filtered indexes: parameters do not match them. A line "go" ends a batch, as in sqlcmd and Management Studio.

-- Programs that know version compatible_with, though not this one, may go on.
create table dibs_migration (
  version int not null constraint dibs_migration_pk primary key clustered,
  compatible_with int not null,
  applied_at bigint not null
);

-- Who the database is, so that a caller's transaction on another one is noticed.
create table dibs_identity (
  one tinyint not null constraint dibs_identity_pk primary key clustered,
  id uniqueidentifier not null,
  constraint dibs_identity_is_one_row check (one = 1)
);
insert into dibs_identity (one, id)
values (1, newid());

create table dibs_queue (
  name varbinary(255) not null constraint dibs_queue_pk primary key clustered,
  version bigint not null default 1, -- raised by every change of a setting
  paused tinyint not null,
  concurrency int not null,
  rate_n int not null default 0,
  rate_per bigint not null default 0,
  rate_burst int not null default 0,
  group_limit int not null,
  group_rate_n int not null default 0, -- of each group that has no rate of its own; per in microseconds
  group_rate_per bigint not null default 0,
  group_rate_burst int not null default 0,
  strict tinyint not null,
  claim_order varchar(16) collate Latin1_General_100_BIN2_UTF8 not null,
  lease bigint not null,
  job_timeout bigint not null default 0, -- how long an attempt may run; 0: no limit. extend.sql tells the workers
  max_attempts int not null,
  backoff_base bigint not null,
  backoff_factor float not null,
  backoff_max bigint not null,
  backoff_jitter float not null,
  keep_completed bigint not null,
  keep_dead bigint not null,
  keep_cancelled bigint not null,
  payload_limit int not null,
  group_rates tinyint not null default 0, -- 1 once a group was given a rate
  created_at bigint not null,
  constraint dibs_queue_name_is_1_to_255_long check (datalength(name) between 1 and 255),
  constraint dibs_queue_flags_are_0_or_1 check (paused in (0, 1) and strict in (0, 1) and group_rates in (0, 1)),
  constraint dibs_queue_concurrency_is_0_to_1000000 check (concurrency between 0 and 1000000),
  constraint dibs_queue_rate_is_n_per_1s_to_31days_with_burst check (
    rate_burst between 0 and 1000000000 and (rate_n = 0 or rate_n between 1 and 1000000000 and rate_per between 1000000 and 2678400000000)
  ),
  constraint dibs_queue_group_limit_is_1_to_1000000 check (group_limit between 1 and 1000000),
  constraint dibs_queue_group_rate_is_n_per_1s_to_31days_with_burst check (
    (group_rate_n = 0 and group_rate_burst >= 0)
    or (group_rate_n between 1 and 1000000000 and group_rate_per between 1000000 and 2678400000000 and group_rate_burst between 0 and 1000000000)
  ),
  constraint dibs_queue_claim_order_is_fifo_lifo_or_fair check (claim_order in ('fifo', 'lifo', 'fair')),
  constraint dibs_queue_lease_is_100ms_to_24h check (lease between 100000 and 86400000000),
  constraint dibs_queue_job_timeout_is_0_to_10years check (job_timeout between 0 and 315360000000000),
  constraint dibs_queue_max_attempts_is_1_to_1000000 check (max_attempts between 1 and 1000000),
  constraint dibs_queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1 check (
    backoff_base >= 1000 and backoff_max between backoff_base and 315360000000000 and backoff_factor between 1 and 1000 and backoff_jitter between 0 and 1
  ),
  constraint dibs_queue_keeps_finished_jobs_for_0_to_10years check (
    keep_completed between 0 and 315360000000000 and keep_dead between 0 and 315360000000000 and keep_cancelled between 0 and 315360000000000
  ),
  constraint dibs_queue_payload_limit_is_2_to_67108864 check (payload_limit between 2 and 67108864)
);

-- What the rates of queues (in rows without a group) and of groups have saved up.
create table dibs_rate (
  queue varbinary(255) not null,
  group_key varbinary(255) not null, -- empty: the queue itself, whose settings are in dibs_queue
  n int not null default 0,
  per bigint not null default 0,
  burst int not null default 0,
  full_ns bigint not null default 0, -- in nanoseconds: package bucket explains it
  not_before bigint not null default 0, -- no claim may start an unclaimed job earlier
  held_until bigint null, -- of a group: when it is to be settled anew, as it waits for its rate
  constraint dibs_rate_pk primary key clustered (queue, group_key),
  constraint dibs_rate_is_n_per_1s_to_31days_with_burst check (n >= 0 and burst >= 0 and (n = 0 or per between 1000000 and 2678400000000))
);
alter table dibs_rate set (lock_escalation = disable);
create index held on dibs_rate (queue, held_until);
create index saved on dibs_rate (n, full_ns);

-- A schedule enqueues a job at each of its ticks.
create table dibs_schedule (
  name varbinary(255) not null constraint dibs_schedule_pk primary key clustered,
  owner varbinary(255) not null, -- whose list it is in; empty: nobody's
  settings varchar(max) collate Latin1_General_100_BIN2_UTF8 not null, -- JSON, as programs read and write it
  paused tinyint not null,
  since bigint not null, -- when its spec was set: intervals are counted from here
  next_at bigint null, -- null: no tick will come
  last_tick bigint null,
  last_job bigint null,
  metadata varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  payload varchar(max) collate Latin1_General_100_BIN2_UTF8 not null, -- of its jobs
  constraint dibs_schedule_paused_is_0_or_1 check (paused in (0, 1)),
  constraint dibs_schedule_settings_is_a_json_object check (isjson(settings) = 1 and left(ltrim(settings), 1) = '{'),
  constraint dibs_schedule_metadata_is_a_json_object check (metadata is null or isjson(metadata) = 1 and left(ltrim(metadata), 1) = '{'),
  constraint dibs_schedule_times_are_in_years_1970_to_9999 check (
    since between 0 and 253402300799999999 and (next_at is null or next_at between 0 and 253402300799999999)
  )
);
create index next_tick on dibs_schedule (next_at);

-- The register of workers: one row for each run of a worker, written every ten seconds.
create table dibs_worker (
  id binary(16) not null constraint dibs_worker_pk primary key clustered,
  name varbinary(255) not null,
  host varbinary(255) not null,
  pid bigint not null,
  version varbinary(255) not null,
  queues varchar(max) collate Latin1_General_100_BIN2_UTF8 not null, -- JSON array
  kinds varchar(max) collate Latin1_General_100_BIN2_UTF8 null, -- JSON array; null: all
  concurrency int not null,
  state varchar(16) collate Latin1_General_100_BIN2_UTF8 not null,
  since bigint not null,
  seen_at bigint not null,
  constraint dibs_worker_has_queues_and_kinds_as_json_arrays check (
    isjson(queues) = 1 and left(ltrim(queues), 1) = '[' and (kinds is null or isjson(kinds) = 1 and left(ltrim(kinds), 1) = '[')
  )
);
create index seen on dibs_worker (seen_at);

-- Ids of jobs are drawn from a sequence, not an identity: those of one call follow each other, and a job that is put back
-- keeps its id without a right to alter the table.
create sequence dibs_job_id as bigint start with 1 increment by 1 cache 1000;

-- Live jobs. gate: 0 ready, 1 blocked by its group, 2 grouped and not yet due, 3 claimed, 5 waiting for the jobs that it
-- comes after.
-- flow is the least id of the call that has enqueued a job, if a job of that call comes after another. followed says that
-- others may come after it.
-- Claims read the index lane. It has no token and no end of a lease, so that an extension changes no index.
-- In a queue with order fair, a job gets its turn with its place, and the number of the admission. Claims go by turn, then
-- admitted. Null: the job has none, and comes last.
-- There are no partial indexes: place and fair are the gates of jobs with a group and of those with a turn. Other jobs
-- have null there, so that a claim does not change their entries in these indexes.
create table dibs_job (
  id bigint not null constraint dibs_job_next_id default (next value for dibs_job_id) constraint dibs_job_pk primary key clustered,
  queue varbinary(255) not null,
  kind varbinary(255) not null,
  priority smallint not null,
  run_at bigint not null,
  gate tinyint not null,
  attempt int not null default 0,
  excused int not null default 0,
  max_attempts int not null,
  group_key varbinary(255) null,
  unique_key varbinary(512) null,
  unique_until varchar(16) collate Latin1_General_100_BIN2_UTF8 null,
  unique_held tinyint not null default 0,
  flow bigint null,
  followed tinyint not null default 0,
  turn bigint null,
  admitted bigint null,
  place as (case when group_key is not null then gate end) persisted,
  fair as (case when turn is not null then gate end) persisted,
  token binary(16) null,
  lease_until bigint null,
  worker varbinary(255) null,
  cancel_requested tinyint not null default 0,
  created_at bigint not null,
  claimed_at bigint null,
  metadata varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  payload varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  errors varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  progress varchar(max) collate Latin1_General_100_BIN2_UTF8 null, -- JSON, of the attempt that it names
  constraint dibs_job_names_are_1_to_255_long check (
    datalength(queue) between 1 and 255 and datalength(kind) between 1 and 255 and (group_key is null or datalength(group_key) between 1 and 255)
  ),
  constraint dibs_job_priority_is_0_to_32767 check (priority between 0 and 32767),
  constraint dibs_job_run_at_is_in_years_1_to_9999 check (run_at between -62135596800000000 and 253402300799999999),
  constraint dibs_job_runs_with_token_lease_and_start check (
    token is null and lease_until is null or token is not null and lease_until is not null and claimed_at is not null
  ),
  constraint dibs_job_gate_fits_group_and_token check (
    gate in (0, 5) and token is null
    or gate in (1, 2) and group_key is not null and token is null
    or gate = 3 and token is not null
  ),
  constraint dibs_job_excused_is_0_to_attempt check (excused between 0 and attempt and excused <= 2000000000),
  constraint dibs_job_max_attempts_is_1_to_1000000 check (max_attempts between 1 and 1000000),
  constraint dibs_job_has_attempts_left_until_it_is_claimed check (token is not null or attempt - excused < max_attempts),
  constraint dibs_job_flags_are_0_or_1 check (unique_held in (0, 1) and cancel_requested in (0, 1) and followed in (0, 1)),
  constraint dibs_job_holds_a_unique_key_that_it_has check (unique_held = 0 or unique_key is not null and unique_until is not null)
);
alter table dibs_job set (lock_escalation = disable);
create index lane on dibs_job (queue, gate, priority, run_at, id);
create index place on dibs_job (queue, place, group_key, priority, run_at, id);
create index fair on dibs_job (queue, fair, turn, admitted, id);
create index later on dibs_job (place, queue, run_at);
create index flow on dibs_job (flow, id);

-- Unique keys. Whoever enqueues a job with a key locks its row, whether or not a job holds it. job holds the key if its
-- unique_held is 1, else nobody does; then the sweep deletes the row, some time after check_at.
create table dibs_key (
  queue varbinary(255) not null,
  unique_key varbinary(512) not null,
  job bigint null,
  check_at bigint not null,
  constraint dibs_key_pk primary key clustered (queue, unique_key) with (ignore_dup_key = on)
);
alter table dibs_key set (lock_escalation = disable);
create index by_check on dibs_key (check_at);

-- Unique keys that are held for a period, whatever becomes of the job.
create table dibs_unique_window (
  queue varbinary(255) not null,
  unique_key varbinary(512) not null,
  until bigint not null,
  job bigint not null, -- which may have been deleted
  constraint dibs_unique_window_pk primary key clustered (queue, unique_key)
);
alter table dibs_unique_window set (lock_escalation = disable);
create index by_end on dibs_unique_window (until);

-- cause is the job because of which it was cancelled. followed is 1 as long as a job that comes after it has not ended:
-- so long it is kept.
create table dibs_finished (
  id bigint not null constraint dibs_finished_pk primary key clustered,
  queue varbinary(255) not null,
  kind varbinary(255) not null,
  state varchar(16) collate Latin1_General_100_BIN2_UTF8 not null,
  finished_at bigint not null,
  priority smallint not null,
  run_at bigint not null,
  attempt int not null,
  excused int not null,
  max_attempts int not null,
  group_key varbinary(255) null,
  unique_key varbinary(512) null,
  unique_until varchar(16) collate Latin1_General_100_BIN2_UTF8 null,
  flow bigint null,
  cause bigint null,
  followed tinyint not null default 0,
  worker varbinary(255) null,
  cancel_requested tinyint not null,
  created_at bigint not null,
  claimed_at bigint null,
  metadata varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  payload varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  errors varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  result varchar(max) collate Latin1_General_100_BIN2_UTF8 null,
  constraint dibs_finished_state_is_completed_dead_or_cancelled check (state in ('completed', 'dead', 'cancelled')),
  constraint dibs_finished_cancel_requested_is_0_or_1 check (cancel_requested in (0, 1))
);
alter table dibs_finished set (lock_escalation = disable);
create index by_time on dibs_finished (queue, state, finished_at, id, followed);
create index by_end on dibs_finished (state, finished_at, id);
create index by_cause on dibs_finished (cause);
create index by_flow on dibs_finished (flow, state);

-- A job comes after another, whose end it needs. stage: 1 until that end was looked at, then 0, and 2 once the child
-- itself has ended. Edges are kept until the child is deleted.
create table dibs_edge (
  child bigint not null,
  parent bigint not null,
  need varchar(16) collate Latin1_General_100_BIN2_UTF8 not null,
  stage tinyint not null,
  constraint dibs_edge_pk primary key clustered (child, parent),
  constraint dibs_edge_need_is_completed_ended_or_failed check (need in ('completed', 'ended', 'failed')),
  constraint dibs_edge_stage_is_0_to_2 check (stage between 0 and 2)
);
alter table dibs_edge set (lock_escalation = disable);
create index by_parent on dibs_edge (parent, stage, child);
create index open_edge on dibs_edge (child, stage, parent);

-- Jobs that others come after, or that come after others, and whose ends are still to be looked at: what one
-- transaction has left to the next ones. Rows are only added and deleted.
create table dibs_ended_list (
  id bigint identity not null constraint dibs_ended_list_pk primary key clustered,
  ids varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  constraint dibs_ended_list_ids_is_a_json_array check (isjson(ids) = 1 and left(ltrim(ids), 1) = '[')
);
alter table dibs_ended_list set (lock_escalation = disable);

-- What the attempts of jobs have done, one row for each step, in their order.
create table dibs_step (
  id bigint identity not null constraint dibs_step_pk primary key clustered,
  job bigint not null, -- live or finished
  name varbinary(255) not null,
  value varchar(max) collate Latin1_General_100_BIN2_UTF8 not null -- JSON
);
alter table dibs_step set (lock_escalation = disable);
create unique index by_job on dibs_step (job, name);

-- The turn to which the claims of a fair queue have come, and the number of the last admission.
create table dibs_reached (
  queue varbinary(255) not null constraint dibs_reached_pk primary key clustered,
  turn bigint not null,
  admitted bigint not null
);

create table dibs_group_limit (
  queue varbinary(255) not null,
  group_key varbinary(255) not null,
  places int not null,
  constraint dibs_group_limit_pk primary key clustered (queue, group_key),
  constraint dibs_group_limit_is_0_to_1000000 check (places between 0 and 1000000)
);

-- One row per claim call; ids is a JSON array. The sweep looks at it from check_at on.
create table dibs_claim (
  token binary(16) not null constraint dibs_claim_pk primary key clustered,
  queue varbinary(255) not null,
  worker varbinary(255) not null,
  check_at bigint not null,
  ids varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  constraint dibs_claim_ids_is_a_json_array check (isjson(ids) = 1 and left(ltrim(ids), 1) = '[')
);
alter table dibs_claim set (lock_escalation = disable);
create index by_check on dibs_claim (check_at);
create index by_queue on dibs_claim (queue, worker);

-- Changes of counts by queue and minute since 1970. A count is the sum of all its rows; each transaction appends one for
-- each queue. The sweep adds rows up, old minutes to minute 0, and what happened in these to dibs_history.
create table dibs_tally (
  id bigint identity not null constraint dibs_tally_pk primary key clustered,
  queue varbinary(255) not null,
  minute bigint not null,
  waiting bigint not null,
  blocked bigint not null,
  running bigint not null,
  completed bigint not null,
  dead bigint not null,
  cancelled bigint not null,
  enqueued bigint not null,
  claimed bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  died bigint not null default 0,
  wait_us bigint not null,
  run_us bigint not null,
  constraint dibs_tally_counts_are_below_1e15 check (
    waiting between -999999999999999 and 999999999999999
    and blocked between -999999999999999 and 999999999999999
    and running between -999999999999999 and 999999999999999
    and completed between -999999999999999 and 999999999999999
    and dead between -999999999999999 and 999999999999999
    and cancelled between -999999999999999 and 999999999999999
  )
);
alter table dibs_tally set (lock_escalation = disable);
create index by_minute on dibs_tally (queue, minute);

-- Groups whose places are to be given anew by the next admission after not_before.
create table dibs_wake (
  id bigint identity not null constraint dibs_wake_pk primary key clustered,
  queue varbinary(255) not null,
  group_key varbinary(255) not null,
  not_before bigint not null
);
alter table dibs_wake set (lock_escalation = disable);
create index by_group on dibs_wake (queue, group_key, not_before);

-- The starts of claims that the rates of groups have not counted yet; group_keys is a JSON array.
create table dibs_start (
  id bigint identity not null constraint dibs_start_pk primary key clustered,
  queue varbinary(255) not null,
  at bigint not null,
  group_keys varchar(max) collate Latin1_General_100_BIN2_UTF8 not null
);
alter table dibs_start set (lock_escalation = disable);
create index by_queue on dibs_start (queue, id);

-- What people have changed by the pages and the HTTP API: about 10,000 changes, the newest.
create table dibs_audit (
  id bigint identity not null constraint dibs_audit_pk primary key clustered,
  at bigint not null,
  who varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  did varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  what varchar(max) collate Latin1_General_100_BIN2_UTF8 not null,
  n bigint not null
);

-- What happened in a minute since 1970 in a queue; queue '' is the sum of all queues. The sweep
-- adds minutes of dibs_tally to it, each once, and deletes those older than two hours.
create table dibs_history (
  minute bigint not null,
  queue varbinary(255) not null,
  enqueued bigint not null,
  claimed bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  died bigint not null,
  wait_us bigint not null,
  run_us bigint not null,
  constraint dibs_history_pk primary key clustered (minute, queue)
);

go

-- Jobs as Get and List show them; the live and the ended ones have the same columns. A live job
-- shows its unique key while it holds it.
create view dibs_live_job as
select
  j.id,
  j.queue,
  j.kind,
  case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end collate Latin1_General_100_BIN2_UTF8 as state,
  j.payload,
  j.metadata,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  case when j.group_key is null then 0 else coalesce(l.places, q.group_limit, 1) end as group_limit,
  case when j.unique_held = 1 or u.until > datediff_big(microsecond, '19700101', sysutcdatetime()) then j.unique_key end as unique_key,
  case when j.unique_held = 1 or u.until > datediff_big(microsecond, '19700101', sysutcdatetime()) then j.unique_until end as unique_until,
  j.worker,
  j.token,
  j.lease_until,
  j.cancel_requested,
  j.created_at,
  j.claimed_at,
  convert(bigint, null) as finished_at,
  j.errors,
  convert(varchar(max), null) collate Latin1_General_100_BIN2_UTF8 as result,
  j.progress,
  case when j.gate <> 3 then (
    select max(h.at)
    from (
      values
        (case when q.rate_n > 0 then o.not_before end),
        (case when j.gate = 1 then r.held_until else r.not_before end)
    ) h (at)
  ) end as held_until,
  u.until as unique_free_at,
  j.flow,
  convert(bigint, null) as cause
from dibs_job j
left join dibs_queue q on q.name = j.queue
left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
left join dibs_unique_window u on u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id
left join dibs_rate o on o.queue = j.queue and o.group_key = 0x
left join dibs_rate r on r.queue = j.queue and r.group_key = j.group_key;

go

create view dibs_ended_job as
select
  f.id,
  f.queue,
  f.kind,
  f.state,
  f.payload,
  f.metadata,
  f.priority,
  f.run_at,
  f.attempt,
  f.excused,
  f.max_attempts,
  f.group_key,
  case when f.group_key is null then 0 else coalesce(l.places, q.group_limit, 1) end as group_limit,
  f.unique_key,
  f.unique_until,
  f.worker,
  convert(binary(16), null) as token,
  convert(bigint, null) as lease_until,
  f.cancel_requested,
  f.created_at,
  f.claimed_at,
  f.finished_at,
  f.errors,
  f.result,
  convert(varchar(max), null) collate Latin1_General_100_BIN2_UTF8 as progress,
  convert(bigint, null) as held_until,
  u.until as unique_free_at,
  f.flow,
  f.cause
from dibs_finished f
left join dibs_queue q on q.name = f.queue
left join dibs_group_limit l on l.queue = f.queue and l.group_key = f.group_key
left join dibs_unique_window u on u.queue = f.queue and u.unique_key = f.unique_key and u.job = f.id;
