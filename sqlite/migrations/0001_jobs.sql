-- 0001: jobs, what surrounds them, and the indexes that claims need.
-- Times are microseconds since 1970 in UTC, durations are microseconds; flags are 0 or 1.
-- Columns that may be long come last, so that reading the others does not touch their pages.

-- Programs that know version compatible_with, though not this one, may go on.
create table dibs_migration (
  version integer primary key,
  compatible_with integer not null,
  applied_at integer not null
) strict;

-- The time of the last transaction: each has a later one than the one before, whatever
-- the system's clock does. seen is the time of the system's clock then.
create table dibs_clock (
  one integer primary key check (one = 1),
  now integer not null,
  seen integer not null
) strict;

insert into dibs_clock (one, now, seen) values (1, 0, unixepoch() * 1000000);

create table dibs_queue (
  name text primary key,
  version integer not null default 1, -- raised by every change of a setting
  paused integer not null,
  concurrency integer not null,
  rate_n integer not null default 0,
  rate_per integer not null default 0,
  rate_burst integer not null default 0,
  group_limit integer not null,
  group_rate_n integer not null default 0, -- of each group that has no rate of its own; per in microseconds
  group_rate_per integer not null default 0,
  group_rate_burst integer not null default 0,
  strict integer not null,
  claim_order text not null,
  lease integer not null,
  job_timeout integer not null default 0, -- how long an attempt may run; 0: no limit. extend.sql tells the workers
  max_attempts integer not null,
  backoff_base integer not null,
  backoff_factor real not null,
  backoff_max integer not null,
  backoff_jitter real not null,
  keep_completed integer not null,
  keep_dead integer not null,
  keep_cancelled integer not null,
  payload_limit integer not null,
  group_rates integer not null default 0, -- 1 once a group was given a rate
  created_at integer not null,
  constraint queue_name_is_1_to_255_long check (length(name) between 1 and 255),
  constraint queue_flags_are_0_or_1 check (paused in (0, 1) and strict in (0, 1) and group_rates in (0, 1)),
  constraint queue_concurrency_is_0_to_1000000 check (concurrency between 0 and 1000000),
  constraint queue_rate_is_n_per_1s_to_31days_with_burst check (
    rate_burst between 0 and 1000000000 and (rate_n = 0 or rate_n between 1 and 1000000000 and rate_per between 1000000 and 2678400000000)
  ),
  constraint queue_group_limit_is_1_to_1000000 check (group_limit between 1 and 1000000),
  constraint queue_group_rate_is_n_per_1s_to_31days_with_burst check (
    (group_rate_n = 0 and group_rate_burst >= 0)
    or (group_rate_n between 1 and 1000000000 and group_rate_per between 1000000 and 2678400000000 and group_rate_burst between 0 and 1000000000)
  ),
  constraint queue_claim_order_is_fifo_lifo_or_fair check (claim_order in ('fifo', 'lifo', 'fair')),
  constraint queue_lease_is_100ms_to_24h check (lease between 100000 and 86400000000),
  constraint queue_job_timeout_is_0_to_10years check (job_timeout between 0 and 315360000000000),
  constraint queue_max_attempts_is_1_to_1000000 check (max_attempts between 1 and 1000000),
  constraint queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1 check (
    backoff_base >= 1000 and backoff_max between backoff_base and 315360000000000 and backoff_factor between 1 and 1000 and backoff_jitter between 0 and 1
  ),
  constraint queue_keeps_finished_jobs_for_0_to_10years check (
    keep_completed between 0 and 315360000000000 and keep_dead between 0 and 315360000000000 and keep_cancelled between 0 and 315360000000000
  ),
  constraint queue_payload_limit_is_2_to_67108864 check (payload_limit between 2 and 67108864)
) strict, without rowid;

-- What the rates of queues (in rows without a group) and of groups have saved up.
create table dibs_rate (
  queue text not null,
  group_key text not null, -- empty: the queue itself, whose settings are in dibs_queue
  n integer not null default 0,
  per integer not null default 0,
  burst integer not null default 0,
  full_ns integer not null default 0, -- in nanoseconds: package bucket explains it
  not_before integer not null default 0, -- no claim may start an unclaimed job earlier
  held_until integer, -- of a group: when it is to be settled anew, as it waits for its rate
  primary key (queue, group_key),
  constraint rate_is_n_per_1s_to_31days_with_burst check (n >= 0 and burst >= 0 and (n = 0 or per between 1000000 and 2678400000000))
) strict, without rowid;

create index dibs_rate_held on dibs_rate (queue, held_until) where held_until is not null;
-- A row with a group and n = 0 is that of a group with its queue's rate. The sweep deletes it when all is saved
-- up again, and finds it by this index.
create index dibs_rate_saved on dibs_rate (full_ns) where n = 0 and group_key <> '';

-- A schedule enqueues a job at each of its ticks.
create table dibs_schedule (
  name text primary key,
  owner text not null, -- whose list it is in; empty: nobody's
  settings text not null, -- JSON, as programs read and write it
  paused integer not null,
  since integer not null, -- when its spec was set: intervals are counted from here
  next_at integer, -- null: no tick will come
  last_tick integer,
  last_job integer,
  metadata text,
  payload text not null, -- of its jobs
  constraint schedule_paused_is_0_or_1 check (paused in (0, 1)),
  constraint schedule_settings_is_a_json_object check (json_valid(settings) and json_type(settings) = 'object'),
  constraint schedule_payload_is_json check (json_valid(payload)),
  constraint schedule_metadata_is_a_json_object check (metadata is null or json_valid(metadata) and json_type(metadata) = 'object'),
  constraint schedule_times_are_in_years_1970_to_9999 check (
    since between 0 and 253402300799999999 and (next_at is null or next_at between 0 and 253402300799999999)
  )
) strict;

create index dibs_schedule_next on dibs_schedule (next_at) where next_at is not null;

-- The register of workers: one row for each run of a worker, written every ten seconds.
create table dibs_worker (
  id blob primary key,
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  queues text not null, -- JSON array
  kinds text, -- JSON array; null: all
  concurrency integer not null,
  state text not null,
  since integer not null,
  seen_at integer not null,
  constraint worker_id_is_16_bytes check (length(id) = 16),
  constraint worker_has_queues_and_kinds_as_json_arrays check (
    json_valid(queues) and json_type(queues) = 'array' and (kinds is null or json_valid(kinds) and json_type(kinds) = 'array')
  )
) strict;

-- Live jobs. gate: 0 ready (or claimed), 1 blocked by its group, 2 grouped and not yet due,
-- 3 claimed in a queue with a concurrency limit, 5 waiting for the jobs that it comes after.
-- flow is the least id of the call that has enqueued a job, if a job of that call comes after another. followed says
-- that others may come after it.
-- In a queue with order fair, a job gets its turn with its place, and the number of the
-- admission. Claims go by turn, then admitted. Null: the job has none, and comes last.
create table dibs_job (
  id integer primary key autoincrement, -- never used twice
  queue text not null,
  kind text not null,
  priority integer not null,
  run_at integer not null,
  gate integer not null,
  attempt integer not null default 0,
  excused integer not null default 0,
  max_attempts integer not null,
  group_key text,
  unique_key text,
  unique_until text,
  unique_held integer not null default 0,
  flow integer,
  followed integer not null default 0,
  turn integer,
  admitted integer,
  token blob,
  lease_until integer,
  worker text,
  cancel_requested integer not null default 0,
  created_at integer not null,
  claimed_at integer,
  metadata text,
  payload text not null,
  errors text,
  progress text, -- JSON, of the attempt that it names
  constraint job_id_is_1_to_9007199254740991 check (id between 1 and 9007199254740991),
  constraint job_names_are_1_to_255_long check (
    length(queue) between 1 and 255 and length(kind) between 1 and 255 and (group_key is null or length(group_key) between 1 and 255)
  ),
  constraint job_priority_is_0_to_32767 check (priority between 0 and 32767),
  constraint job_run_at_is_in_years_1_to_9999 check (run_at between -62135596800000000 and 253402300799999999),
  constraint job_gate_fits_group_and_token check (
    case gate
      when 0 then 1
      when 1 then group_key is not null and token is null
      when 2 then group_key is not null and token is null
      when 3 then token is not null
      when 5 then token is null
      else 0
    end
  ),
  constraint job_excused_is_0_to_attempt check (excused between 0 and attempt and excused <= 2000000000),
  constraint job_max_attempts_is_1_to_1000000 check (max_attempts between 1 and 1000000),
  constraint job_has_attempts_left_until_it_is_claimed check (token is not null or attempt - excused < max_attempts),
  constraint job_runs_with_token_lease_and_start check (
    (token is null) = (lease_until is null) and (token is null or length(token) = 16 and claimed_at is not null)
  ),
  constraint job_flags_are_0_or_1 check (unique_held in (0, 1) and cancel_requested in (0, 1) and followed in (0, 1)),
  constraint job_holds_a_unique_key_that_it_has check (unique_held = 0 or unique_key is not null and unique_until is not null)
) strict;

-- Claimable jobs, in the order of claims. kind is there so that a claim of some kinds reads
-- only the index, and token, always null, because SQLite would look it up in the row.
create index dibs_job_ready on dibs_job (queue, priority, run_at, id, kind, token)
  where gate = 0 and token is null;
-- The blocked jobs of a group in their order.
create index dibs_job_blocked on dibs_job (queue, group_key, priority, run_at)
  where gate = 1;
-- The jobs that hold the places of a group.
create index dibs_job_place on dibs_job (queue, group_key)
  where group_key is not null and gate in (0, 3);
-- Grouped jobs that are not due yet.
create index dibs_job_later on dibs_job (queue, run_at)
  where gate = 2;
-- Running jobs of queues with a concurrency limit.
create index dibs_job_counted on dibs_job (queue)
  where gate = 3;
-- Jobs of a queue that wait for others.
create index dibs_job_after on dibs_job (queue)
  where gate = 5;
-- The jobs of a flow, for those who look at it.
create index dibs_job_flow on dibs_job (flow, id)
  where flow is not null;
-- Claimable jobs of a queue whose groups take turns.
create index dibs_job_fair on dibs_job (queue, turn, admitted, id, kind, run_at, token)
  where gate = 0 and token is null and turn is not null;
create unique index dibs_job_unique on dibs_job (queue, unique_key)
  where unique_held = 1;

-- Unique keys that are held for a period, whatever becomes of the job.
create table dibs_unique_window (
  queue text not null,
  unique_key text not null,
  until integer not null,
  job integer not null, -- which may have been deleted
  primary key (queue, unique_key)
) strict, without rowid;

create index dibs_unique_window_by_end on dibs_unique_window (until);

-- cause is the job because of which it was cancelled. followed is 1 as long as a job that comes after it has not ended:
-- so long it is kept.
create table dibs_finished (
  id integer primary key,
  queue text not null,
  kind text not null,
  state text not null constraint finished_state_is_completed_dead_or_cancelled check (state in ('completed', 'dead', 'cancelled')),
  finished_at integer not null,
  priority integer not null,
  run_at integer not null,
  attempt integer not null,
  excused integer not null,
  max_attempts integer not null,
  group_key text,
  unique_key text,
  unique_until text,
  flow integer,
  cause integer,
  followed integer not null default 0,
  worker text,
  cancel_requested integer not null,
  created_at integer not null,
  claimed_at integer,
  metadata text,
  payload text not null,
  errors text,
  result text,
  constraint finished_cancel_requested_is_0_or_1 check (cancel_requested in (0, 1))
) strict;

-- With followed in the index, a prune passes over kept jobs without reading them. id is for the order of lists.
create index dibs_finished_by_time on dibs_finished (queue, state, finished_at, id, followed);
create index dibs_finished_by_cause on dibs_finished (cause)
  where cause is not null;
-- With the state, a look at a large flow finds the few jobs that have died among those that are completed.
create index dibs_finished_by_flow on dibs_finished (flow, state)
  where flow is not null;

-- A job comes after another, whose end it needs. stage: 1 until that end was looked at, then 0, and 2 once the child
-- itself has ended. Edges are kept until the child is deleted.
create table dibs_edge (
  child integer not null,
  parent integer not null,
  need text not null constraint edge_need_is_completed_ended_or_failed check (need in ('completed', 'ended', 'failed')),
  stage integer not null constraint edge_stage_is_0_to_2 check (stage between 0 and 2),
  primary key (child, parent)
) strict, without rowid;

create index dibs_edge_by_parent on dibs_edge (parent, stage);
create index dibs_edge_open on dibs_edge (child) where stage = 1;
-- The end of a job notes its edges in steps: none reads again what earlier ones have noted.
create index dibs_edge_closed on dibs_edge (child) where stage = 0;

create trigger dibs_finished_drop_edges after delete on dibs_finished
when old.flow is not null
begin
  delete from dibs_edge
  where child = old.id and not exists (select 1 from dibs_job where id = old.id);
end;

-- Jobs that others come after, or that come after others, and whose ends are still to be looked at: what one
-- transaction has left to the next ones. Rows are only added and deleted.
create table dibs_ended_list (
  id integer primary key,
  ids text not null constraint ended_list_ids_is_a_json_array check (json_valid(ids) and json_type(ids) = 'array')
) strict;

-- What the attempts of jobs have done, one row for each step.
create table dibs_step (
  job integer not null, -- live or finished
  name text not null,
  value text not null, -- JSON
  primary key (job, name)
) strict;

-- The turn to which the claims of a fair queue have come, and the number of the last admission.
create table dibs_reached (
  queue text primary key,
  turn integer not null,
  admitted integer not null
) strict, without rowid;

create table dibs_group_limit (
  queue text not null,
  group_key text not null,
  places integer not null constraint group_limit_is_0_to_1000000 check (places between 0 and 1000000),
  primary key (queue, group_key)
) strict, without rowid;

-- One row per claim call; ids is a JSON array. The sweep looks at it from check_at on.
create table dibs_claim (
  token blob primary key,
  queue text not null,
  worker text not null,
  check_at integer not null,
  ids text not null,
  constraint claim_token_is_16_bytes check (length(token) = 16),
  constraint claim_ids_is_a_json_array check (json_valid(ids) and json_type(ids) = 'array')
) strict, without rowid;

create index dibs_claim_by_check on dibs_claim (check_at);

-- Changes of counts by queue and minute since 1970. A count is the sum of all its rows;
-- the sweep adds old minutes to minute 0, and what happened in them to dibs_history.
create table dibs_tally (
  queue text not null,
  minute integer not null,
  waiting integer not null,
  blocked integer not null,
  running integer not null,
  completed integer not null,
  dead integer not null,
  cancelled integer not null,
  enqueued integer not null,
  claimed integer not null,
  succeeded integer not null,
  failed integer not null,
  died integer not null default 0,
  wait_us integer not null,
  run_us integer not null,
  primary key (queue, minute),
  constraint tally_counts_are_below_1e15 check (
    max(waiting, blocked, running, completed, dead, cancelled) < 1000000000000000
    and min(waiting, blocked, running, completed, dead, cancelled) > -1000000000000000
  )
) strict, without rowid;

-- What people have changed by the pages and the HTTP API: about 10,000 changes, the newest.
create table dibs_audit (
  id integer primary key,
  at integer not null,
  who text not null,
  did text not null,
  what text not null,
  n integer not null
) strict;

-- What happened in a minute since 1970 in a queue; queue '' is the sum of all queues. The sweep
-- adds minutes of dibs_tally to it, each once, and deletes those older than two hours.
create table dibs_history (
  minute integer not null,
  queue text not null,
  enqueued integer not null,
  claimed integer not null,
  succeeded integer not null,
  failed integer not null,
  died integer not null,
  wait_us integer not null,
  run_us integer not null,
  primary key (minute, queue)
) strict, without rowid;

-- Jobs as Get and List show them; the live and the ended ones have the same columns. A live job
-- shows its unique key while it holds it.
create view dibs_live_job as
select
  j.id,
  j.queue,
  j.kind,
  case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state,
  j.payload,
  j.metadata,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  case when j.group_key is null then 0 else coalesce(l.places, q.group_limit, 1) end as group_limit,
  case when j.unique_held = 1 or exists (
    select 1
    from dibs_unique_window u
    where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id and u.until > unixepoch('subsec') * 1000000
  ) then j.unique_key end as unique_key,
  case when j.unique_held = 1 or exists (
    select 1
    from dibs_unique_window u
    where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id and u.until > unixepoch('subsec') * 1000000
  ) then j.unique_until end as unique_until,
  j.worker,
  j.token,
  j.lease_until,
  j.cancel_requested,
  j.created_at,
  j.claimed_at,
  null as finished_at,
  j.errors,
  null as result,
  j.progress,
  case when j.token is null then (
    select max(case when j.gate = 1 and r.group_key <> '' then r.held_until else r.not_before end)
    from dibs_rate r
    where r.queue = j.queue and r.group_key in ('', j.group_key) and (r.group_key <> '' or q.rate_n > 0)
  ) end as held_until,
  (
    select u.until
    from dibs_unique_window u
    where u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id
  ) as unique_free_at,
  j.flow,
  null as cause
from dibs_job j
left join dibs_queue q on q.name = j.queue
left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key;

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
  null as token,
  null as lease_until,
  f.cancel_requested,
  f.created_at,
  f.claimed_at,
  f.finished_at,
  f.errors,
  f.result,
  null as progress,
  null as held_until,
  (
    select u.until
    from dibs_unique_window u
    where u.queue = f.queue and u.unique_key = f.unique_key and u.job = f.id
  ) as unique_free_at,
  f.flow,
  f.cause
from dibs_finished f
left join dibs_queue q on q.name = f.queue
left join dibs_group_limit l on l.queue = f.queue and l.group_key = f.group_key;
