-- 0001: jobs, what surrounds them, and the indexes that claims need.
-- Times are microseconds since 1970 in UTC, durations are microseconds; flags are 0 or 1. Names are bytes, which have no
-- collation. Texts are bytes too: what was written is read, whatever character set a session has.
-- Each statement changes nothing if it has been run before, as statements that make tables cannot be rolled back.

-- Programs that know version compatible_with, though not this one, may go on.
create table if not exists dibs_migration (
  version int primary key,
  compatible_with int not null,
  applied_at bigint not null
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

create table if not exists dibs_queue (
  name varbinary(255) primary key,
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
  claim_order varbinary(8) not null,
  lease bigint not null,
  job_timeout bigint not null default 0, -- how long an attempt may run; 0: no limit. extend.sql tells the workers
  max_attempts int not null,
  backoff_base bigint not null,
  backoff_factor double not null,
  backoff_max bigint not null,
  backoff_jitter double not null,
  keep_completed bigint not null,
  keep_dead bigint not null,
  keep_cancelled bigint not null,
  payload_limit int not null,
  group_rates tinyint not null default 0, -- 1 once a group was given a rate
  created_at bigint not null,
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
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- A row is locked by the transaction that has a turn (package rowstore says what turns are). On a cluster the transaction also
-- raises n: locks keep out only transactions of the same node.
create table if not exists dibs_turn (
  what varbinary(16) not null,
  queue varbinary(255) not null,
  n bigint not null default 0,
  primary key (what, queue)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Between these rows there are gaps in which nothing is ever committed: lock_gap.sql says why.
insert ignore into dibs_turn (what, queue)
with recursive g (n) as (
  select 0
  union all
  select n + 1
  from g
  where n < 64
)
select 'gap', lpad(hex(n), 2, '0')
from g;

-- What the rates of queues (in rows without a group) and of groups have saved up.
create table if not exists dibs_rate (
  queue varbinary(255) not null,
  group_key varbinary(255) not null, -- empty: the queue itself, whose settings are in dibs_queue
  n int not null default 0,
  per bigint not null default 0,
  burst int not null default 0,
  full_ns bigint not null default 0, -- in nanoseconds: package bucket explains it
  not_before bigint not null default 0, -- no claim may start an unclaimed job earlier
  held_until bigint null, -- of a group: when it is to be settled anew, as it waits for its rate
  primary key (queue, group_key),
  key held (queue, held_until),
  key saved (n, full_ns),
  constraint rate_is_n_per_1s_to_31days_with_burst check (n >= 0 and burst >= 0 and (n = 0 or per between 1000000 and 2678400000000))
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- A schedule enqueues a job at each of its ticks.
create table if not exists dibs_schedule (
  name varbinary(255) primary key,
  owner varbinary(255) not null, -- whose list it is in; empty: nobody's
  settings longblob not null, -- JSON, as programs read and write it
  paused tinyint not null,
  since bigint not null, -- when its spec was set: intervals are counted from here
  next_at bigint null, -- null: no tick will come
  last_tick bigint null,
  last_job bigint null,
  metadata longblob null,
  payload longblob not null, -- of its jobs
  key next_tick (next_at),
  constraint schedule_paused_is_0_or_1 check (paused in (0, 1)),
  constraint schedule_settings_is_a_json_object check (json_valid(convert(settings using utf8mb4)) and json_type(convert(settings using utf8mb4)) = 'OBJECT'),
  constraint schedule_payload_is_json check (json_valid(convert(payload using utf8mb4))),
  constraint schedule_metadata_is_a_json_object check (
    metadata is null or json_valid(convert(metadata using utf8mb4)) and json_type(convert(metadata using utf8mb4)) = 'OBJECT'
  ),
  constraint schedule_times_are_in_years_1970_to_9999 check (
    since between 0 and 253402300799999999 and (next_at is null or next_at between 0 and 253402300799999999)
  )
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- The register of workers: one row for each run of a worker, written every ten seconds.
create table if not exists dibs_worker (
  id binary(16) primary key,
  name varbinary(255) not null,
  host varbinary(255) not null,
  pid bigint not null,
  version varbinary(255) not null,
  queues longblob not null, -- JSON array
  kinds longblob null, -- JSON array; null: all
  concurrency int not null,
  state varbinary(16) not null,
  since bigint not null,
  seen_at bigint not null,
  key seen (seen_at),
  constraint worker_has_queues_and_kinds_as_json_arrays check (
    json_valid(convert(queues using utf8mb4)) and json_type(convert(queues using utf8mb4)) = 'ARRAY'
    and (kinds is null or json_valid(convert(kinds using utf8mb4)) and json_type(convert(kinds using utf8mb4)) = 'ARRAY')
  )
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Live jobs. gate: 0 ready, 1 blocked by its group, 2 grouped and not yet due, 3 claimed, 5 waiting for the jobs that it
-- comes after.
-- flow is the least id of the call that has enqueued a job, if a job of that call comes after another. followed says that
-- others may come after it.
-- Claims read the index lane. It has no token and no end of a lease, so that an extension changes no index.
-- In a queue with order fair, a job gets its turn with its place, and the number of the admission. Claims go by turn, then
-- admitted. Null: the job has none, and comes last.
-- There are no partial indexes: place and fair are the gates of jobs with a group and of those with a turn. Other jobs
-- have null there, so that a claim does not change their entries in these indexes.
create table if not exists dibs_job (
  id bigint auto_increment primary key,
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
  unique_until varbinary(8) null,
  unique_held tinyint not null default 0,
  flow bigint null,
  followed tinyint not null default 0,
  turn bigint null,
  admitted bigint null,
  place tinyint as (case when group_key is not null then gate end) stored,
  fair tinyint as (case when turn is not null then gate end) stored,
  token binary(16) null,
  lease_until bigint null,
  worker varbinary(255) null,
  cancel_requested tinyint not null default 0,
  created_at bigint not null,
  claimed_at bigint null,
  metadata longblob null,
  payload longblob not null,
  errors longblob null,
  progress longblob null, -- JSON, of the attempt that it names
  key lane (queue, gate, priority, run_at, id),
  key place (queue, place, group_key, priority, run_at, id),
  key fair (queue, fair, turn, admitted, id),
  key later (place, queue, run_at),
  key flow (flow, id),
  constraint job_names_are_1_to_255_long check (
    length(queue) between 1 and 255 and length(kind) between 1 and 255 and (group_key is null or length(group_key) between 1 and 255)
  ),
  constraint job_priority_is_0_to_32767 check (priority between 0 and 32767),
  constraint job_run_at_is_in_years_1_to_9999 check (run_at between -62135596800000000 and 253402300799999999),
  constraint job_runs_with_token_lease_and_start check (
    (token is null) = (lease_until is null) and (token is null or claimed_at is not null)
  ),
  constraint job_gate_fits_group_and_token check (
    1 = case gate
      when 0 then token is null
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
  constraint job_flags_are_0_or_1 check (unique_held in (0, 1) and cancel_requested in (0, 1) and followed in (0, 1)),
  constraint job_holds_a_unique_key_that_it_has check (unique_held = 0 or unique_key is not null and unique_until is not null)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Unique keys. Whoever enqueues a job with a key locks its row, whether or not a job holds it. job holds the key if its
-- unique_held is 1, else nobody does; then the sweep deletes the row, some time after check_at.
create table if not exists dibs_key (
  queue varbinary(255) not null,
  unique_key varbinary(512) not null,
  job bigint null,
  check_at bigint not null,
  primary key (queue, unique_key),
  key by_check (check_at)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Unique keys that are held for a period, whatever becomes of the job.
create table if not exists dibs_unique_window (
  queue varbinary(255) not null,
  unique_key varbinary(512) not null,
  until bigint not null,
  job bigint not null, -- which may have been deleted
  primary key (queue, unique_key),
  key by_end (until)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- cause is the job because of which it was cancelled. followed is 1 as long as a job that comes after it has not ended:
-- so long it is kept.
create table if not exists dibs_finished (
  id bigint primary key,
  queue varbinary(255) not null,
  kind varbinary(255) not null,
  state varbinary(16) not null,
  finished_at bigint not null,
  priority smallint not null,
  run_at bigint not null,
  attempt int not null,
  excused int not null,
  max_attempts int not null,
  group_key varbinary(255) null,
  unique_key varbinary(512) null,
  unique_until varbinary(8) null,
  flow bigint null,
  cause bigint null,
  followed tinyint not null default 0,
  worker varbinary(255) null,
  cancel_requested tinyint not null,
  created_at bigint not null,
  claimed_at bigint null,
  metadata longblob null,
  payload longblob not null,
  errors longblob null,
  result longblob null,
  key by_time (queue, state, finished_at, id, followed),
  key by_end (state, finished_at, id),
  key by_cause (cause),
  key by_flow (flow, state),
  constraint finished_state_is_completed_dead_or_cancelled check (state in ('completed', 'dead', 'cancelled')),
  constraint finished_cancel_requested_is_0_or_1 check (cancel_requested in (0, 1))
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- A job comes after another, whose end it needs. stage: 1 until that end was looked at, then 0, and 2 once the child
-- itself has ended. Edges are kept until the child is deleted.
create table if not exists dibs_edge (
  child bigint not null,
  parent bigint not null,
  need varbinary(16) not null,
  stage tinyint not null,
  primary key (child, parent),
  key by_parent (parent, stage, child),
  key open_edge (child, stage, parent),
  constraint edge_need_is_completed_ended_or_failed check (need in ('completed', 'ended', 'failed')),
  constraint edge_stage_is_0_to_2 check (stage between 0 and 2)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Jobs that others come after, or that come after others, and whose ends are still to be looked at: what one
-- transaction has left to the next ones. Rows are only added and deleted.
create table if not exists dibs_ended_list (
  id bigint auto_increment primary key,
  ids longblob not null,
  constraint ended_list_ids_is_a_json_array check (json_valid(convert(ids using utf8mb4)) and json_type(convert(ids using utf8mb4)) = 'ARRAY')
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- What the attempts of jobs have done, one row for each step, in their order.
create table if not exists dibs_step (
  id bigint auto_increment primary key,
  job bigint not null, -- live or finished
  name varbinary(255) not null,
  value longblob not null, -- JSON
  unique key by_job (job, name)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- The turn to which the claims of a fair queue have come, and the number of the last admission.
create table if not exists dibs_reached (
  queue varbinary(255) primary key,
  turn bigint not null,
  admitted bigint not null
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

create table if not exists dibs_group_limit (
  queue varbinary(255) not null,
  group_key varbinary(255) not null,
  places int not null,
  primary key (queue, group_key),
  constraint group_limit_is_0_to_1000000 check (places between 0 and 1000000)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- One row per claim call; ids is a JSON array. The sweep looks at it from check_at on.
create table if not exists dibs_claim (
  token binary(16) primary key,
  queue varbinary(255) not null,
  worker varbinary(255) not null,
  check_at bigint not null,
  ids longblob not null,
  key by_check (check_at),
  key by_queue (queue, worker),
  constraint claim_ids_is_a_json_array check (json_valid(convert(ids using utf8mb4)) and json_type(convert(ids using utf8mb4)) = 'ARRAY')
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Changes of counts by queue and minute since 1970. A count is the sum of all its rows; each transaction appends one for
-- each queue. The sweep adds rows up, old minutes to minute 0, and what happened in these to dibs_history.
create table if not exists dibs_tally (
  id bigint auto_increment primary key,
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
  key by_minute (queue, minute),
  constraint tally_counts_are_below_1e15 check (
    greatest(waiting, blocked, running, completed, dead, cancelled) < 1000000000000000
    and least(waiting, blocked, running, completed, dead, cancelled) > -1000000000000000
  )
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Groups whose places are to be given anew by the next admission after not_before.
create table if not exists dibs_wake (
  id bigint auto_increment primary key,
  queue varbinary(255) not null,
  group_key varbinary(255) not null,
  not_before bigint not null,
  key by_group (queue, group_key, not_before)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- The starts of claims that the rates of groups have not counted yet; group_keys is a JSON array.
create table if not exists dibs_start (
  id bigint auto_increment primary key,
  queue varbinary(255) not null,
  at bigint not null,
  group_keys longblob not null,
  key by_queue (queue, id)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- What people have changed by the pages and the HTTP API: about 10,000 changes, the newest.
create table if not exists dibs_audit (
  id bigint auto_increment primary key,
  at bigint not null,
  who blob not null,
  did blob not null,
  what blob not null,
  n bigint not null
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- What happened in a minute since 1970 in a queue; queue '' is the sum of all queues. The sweep
-- adds minutes of dibs_tally to it, each once, and deletes those older than two hours.
create table if not exists dibs_history (
  minute bigint not null,
  queue varbinary(255) not null,
  enqueued bigint not null,
  claimed bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  died bigint not null,
  wait_us bigint not null,
  run_us bigint not null,
  primary key (minute, queue)
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Jobs that callers in any language insert in transactions of their own. A worker, or dibs serve, enqueues and deletes the
-- committed rows. Columns are texts in the caller's character set, as the server converts them; an empty text is as good as
-- null. They are wider than what the constraints allow, since a session that is not strict cuts values to the column's size.
create table if not exists dibs_inbox (
  id bigint auto_increment primary key, -- not the job's
  queue varchar(300) null,
  payload longtext null, -- JSON
  kind varchar(300) null,
  priority int null,
  delay decimal(20, 6) null, -- in seconds, as the other durations
  run_at timestamp(6) null default null,
  max_attempts int null,
  group_key varchar(300) null,
  unique_key varchar(600) null,
  unique_until varchar(20) null,
  unique_for decimal(20, 6) null,
  unique_window varchar(300) null,
  if_held varchar(20) null,
  delay_limit decimal(20, 6) null,
  metadata longtext null, -- a JSON object
  inserted_at timestamp(6) not null default current_timestamp(6),
  size int unsigned as (coalesce(octet_length(payload), 0)) stored,
  constraint inbox_names_are_up_to_255_bytes check (
    octet_length(coalesce(queue, '')) <= 255 and octet_length(coalesce(kind, '')) <= 255 and octet_length(coalesce(group_key, '')) <= 255
  ),
  constraint inbox_payload_is_json check (payload is null or octet_length(payload) = 0 or json_valid(payload)),
  constraint inbox_payload_is_up_to_67108864_bytes check (size <= 67108864),
  constraint inbox_priority_is_0_to_32767 check (priority between 0 and 32767),
  constraint inbox_delay_is_0_to_10years check (delay between 0 and 315360000),
  constraint inbox_has_delay_or_run_at_not_both check (coalesce(delay, 0) = 0 or run_at is null),
  constraint inbox_max_attempts_is_0_to_1000000 check (max_attempts between 0 and 1000000),
  constraint inbox_unique_key_is_up_to_512_bytes check (octet_length(unique_key) <= 512),
  constraint inbox_unique_until_is_finished_or_claimed check (unique_until in ('', 'finished', 'claimed')),
  constraint inbox_unique_for_is_0_to_10years check (unique_for between 0 and 315360000),
  constraint inbox_if_held_is_keep_replace_or_push check (if_held in ('', 'keep', 'replace', 'push')),
  constraint inbox_delay_limit_is_0_to_10years check (delay_limit between 0 and 315360000),
  constraint inbox_metadata_is_a_json_object_up_to_16384_bytes check (
    metadata is null or octet_length(metadata) = 0 or octet_length(metadata) <= 16384 and json_valid(metadata) and json_type(metadata) = 'OBJECT'
  )
) engine = innodb default character set utf8mb4 collate utf8mb4_bin;

-- Jobs as Get and List show them; the live and the ended ones have the same columns. A live job
-- shows its unique key while it holds it. The views have no subqueries: with one, the server would first read all jobs.
create or replace view dibs_live_job as
select
  j.id,
  j.queue,
  j.kind,
  case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state,
  j.payload,
  j.metadata,
  j.priority,
  j.run_at,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.group_key,
  case when j.group_key is null then 0 else coalesce(l.places, q.group_limit, 1) end as group_limit,
  case when j.unique_held = 1 or u.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) then j.unique_key end as unique_key,
  case when j.unique_held = 1 or u.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) then j.unique_until end as unique_until,
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
  case when j.gate <> 3 then nullif(greatest(
    coalesce(case when q.rate_n > 0 then o.not_before end, -9000000000000000000),
    coalesce(case when j.gate = 1 then r.held_until else r.not_before end, -9000000000000000000)
  ), -9000000000000000000) end as held_until,
  u.until as unique_free_at,
  j.flow,
  null as cause
from dibs_job j
left join dibs_queue q on q.name = j.queue
left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
left join dibs_unique_window u on u.queue = j.queue and u.unique_key = j.unique_key and u.job = j.id
left join dibs_rate o on o.queue = j.queue and o.group_key = ''
left join dibs_rate r on r.queue = j.queue and r.group_key = j.group_key;

create or replace view dibs_ended_job as
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
  u.until as unique_free_at,
  f.flow,
  f.cause
from dibs_finished f
left join dibs_queue q on q.name = f.queue
left join dibs_group_limit l on l.queue = f.queue and l.group_key = f.group_key
left join dibs_unique_window u on u.queue = f.queue and u.unique_key = f.unique_key and u.job = f.id;
