-- 0005: jobs that come after others. See docs/design/0034-flows.md.
-- Compatible with programs that know version 1.
-- That holds until a job comes after another: those programs release no follower when they end a job. The sweep of a
-- newer program finds such followers, among 500 jobs every 10 s.
--
-- Jobs wait for others at gate 5, out of the range of claims. SQLite cannot change a check of a table, so the table
-- is made anew: its rows are copied twice, as renaming a table would change the views and triggers that name it.

create table dibs_job_copy as
select
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  token,
  lease_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  progress
from dibs_job;

create table dibs_job_last_id as
select seq
from sqlite_sequence
where name = 'dibs_job';

drop table dibs_job;

-- flow is the least id of the call that has enqueued a job, if a job of that call comes after another. followed says
-- that others may come after it.
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
  flow integer,
  followed integer not null default 0,
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

insert into dibs_job (
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  token,
  lease_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  progress
)
select
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  token,
  lease_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  progress
from dibs_job_copy;

delete from sqlite_sequence
where name = 'dibs_job';

insert into sqlite_sequence (name, seq)
select 'dibs_job', seq
from dibs_job_last_id;

drop table dibs_job_copy;
drop table dibs_job_last_id;

create index dibs_job_ready on dibs_job (queue, priority, run_at, id, kind, token)
  where gate = 0 and token is null;
create index dibs_job_blocked on dibs_job (queue, group_key, priority, run_at)
  where gate = 1;
create index dibs_job_place on dibs_job (queue, group_key)
  where group_key is not null and gate in (0, 3);
create index dibs_job_later on dibs_job (queue, run_at)
  where gate = 2;
create index dibs_job_counted on dibs_job (queue)
  where gate = 3;
create unique index dibs_job_unique on dibs_job (queue, unique_key)
  where unique_held = 1;
-- Jobs of a queue that wait for others.
create index dibs_job_after on dibs_job (queue)
  where gate = 5;
-- The jobs of a flow, for those who look at it.
create index dibs_job_flow on dibs_job (flow, id)
  where flow is not null;

-- cause is the job because of which it was cancelled. followed is 1 as long as a job that comes after it has not ended:
-- so long it is kept.
alter table dibs_finished
  add column flow integer;
alter table dibs_finished
  add column cause integer;
alter table dibs_finished
  add column followed integer not null default 0;

create index dibs_finished_by_cause on dibs_finished (cause)
  where cause is not null;
create index dibs_finished_by_flow on dibs_finished (flow)
  where flow is not null;

-- With followed in the index, a prune passes over kept jobs without reading them. id is for the order of lists.
drop index dibs_finished_by_time;
create index dibs_finished_by_time on dibs_finished (queue, state, finished_at, id, followed);

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

-- Jobs as Get and List show them. The views dibs_live_job and dibs_ended_job stay as they are, for programs of earlier
-- versions.
create view dibs_shown_live as
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

create view dibs_shown_ended as
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

-- As in 0002, but a job that waits for others goes on waiting for them when it is replaced or pushed.
drop trigger dibs_keyed_job_meet;

create trigger dibs_keyed_job_meet instead of insert on dibs_keyed_job
begin
  update dibs_enqueued
  set
    id = h.id,
    existing = h.id is not null,
    replaced = h.waits and new.if_held is 'replace',
    pushed = h.waits and new.if_held is 'push'
  from (
    select k.id, j.id is not null and j.token is null as waits
    from (
      select coalesce((
        select j.id
        from dibs_job j indexed by dibs_job_unique
        where j.queue = new.queue and j.unique_key = new.unique_key and j.unique_held = 1
      ), (
        select u.job
        from dibs_unique_window u
        where u.queue = new.queue and u.unique_key = new.unique_key and u.until > new.now and new.free_at is not null
      )) as id
    ) k
    left join dibs_job j on j.id = k.id
  ) h
  where one = 1;

  insert into dibs_changed_job
  select
    j.id,
    j.queue,
    new.now,
    e.replaced,
    j.gate,
    j.group_key,
    case when e.pushed then j.kind else new.kind end,
    j.priority_then,
    j.run_at_then,
    case
      when j.gate = 5 then 5
      when q.strict and j.attempt > 0 and j.gate = 0 and j.group_then is j.group_key then 0
      when j.group_then is null then 0
      when j.run_at_then > new.now or new.rated then 2
      else 1
    end,
    j.group_then,
    new.max_attempts,
    new.metadata,
    new.payload
  from dibs_enqueued e
  join (
    select
      h.*,
      case when new.if_held = 'push' then h.priority else new.priority end as priority_then,
      case when new.if_held = 'push' then h.group_key else new.group_key end as group_then,
      case
        when new.if_held = 'push' then iif(h.starts_at > new.now, max(h.starts_at, h.run_at), h.run_at)
        when new.run_at_given or h.run_at > h.starts_at then max(h.starts_at, new.now)
        else h.run_at
      end as run_at_then
    from (
      select l.*, iif(new.delay_limit > 0, min(new.run_at, l.created_at + new.delay_limit), new.run_at) as starts_at
      from dibs_job l
      where l.id = (select id from dibs_enqueued)
    ) h
  ) j
  join dibs_queue q on q.name = j.queue
  where e.replaced or e.pushed and j.run_at_then <> j.run_at;
end;
