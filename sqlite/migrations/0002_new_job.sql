-- 0002: enqueueing in SQL: "insert into dibs_new_job (queue, payload) values (…)".
-- Compatible with programs that know version 1.
--
-- The triggers do what enqueue.go, unique.go and group.go do, for programs in any language. They
-- are the schema of all programs that open the file, so they use nothing that came to SQLite
-- after version 3.38: messages are literals, since raise() takes expressions from 3.47 on only.
-- Triggers have no variables. Each insert into a view below hands values on to its trigger.

-- What became of the last row that was inserted into dibs_new_job.
create table dibs_enqueued (
  one integer primary key check (one = 1),
  id integer, -- of the new job, or of the one that holds its unique key
  existing integer not null,
  replaced integer not null,
  pushed integer not null
) strict;

-- The view that programs insert into; it has no rows. Empty texts count as null.
create view dibs_new_job as
select
  null as queue, -- default: default
  null as payload, -- JSON as text; default: null
  null as kind, -- default: the queue's name
  null as priority, -- 0 to 32767, default 255
  null as delay, -- seconds
  null as run_at, -- ISO 8601 as text, or seconds since 1970 as a number
  null as group_key,
  null as unique_key,
  null as unique_until, -- finished or claimed
  null as unique_for, -- seconds
  null as unique_window, -- hour, day, week or month, in UTC
  null as if_held, -- keep, replace or push
  null as delay_limit, -- seconds
  null as max_attempts, -- default: the queue's
  null as metadata, -- a JSON object as text
  null as after -- a JSON array as text, of ids, or of objects such as {"id": 17, "on": "ended"}
where false;

create trigger dibs_new_job_check instead of insert on dibs_new_job
begin
  insert into dibs_bad_name (field, problem)
  select field, problem
  from (
    select field, case
      when value is null or value = '' then null
      when typeof(value) not in ('text', 'integer') then 'type'
      when field = 'queue' and instr(value, '://') > 0 then 'url'
      when length(cast(value as blob)) > most then 'length'
      when value not glob '*[^ -~]*' and length(value) = length(cast(value as blob)) then null
      -- Not ASCII alone: look at each character. One that does not come back from its number was
      -- not valid; the two that SQLite replaces though they are valid are named.
      else (
        with recursive letter (nth, bytes, number) as (
          select 1, cast(substr(value, 1, 1) as blob), unicode(substr(value, 1, 1))
          union all
          select nth + 1, cast(substr(value, nth + 1, 1) as blob), unicode(substr(value, nth + 1, 1))
          from letter
          where nth < length(value)
        )
        select case
          when max(number is not null and bytes <> cast(char(number) as blob) and hex(bytes) not in ('EFBFBE', 'EFBFBF')) then 'utf-8'
          else coalesce(substr(min(case
            when number < 32 or number between 127 and 159 then printf('%03d control', nth)
            when number in (0x61c, 0x200e, 0x200f) or number between 0x2028 and 0x202e or number between 0x2066 and 0x2069
              then printf('%03d direction', nth)
          end), 5), iif(instr(value, char(0)) > 0, 'control', null)) -- letters end before a NUL
        end
        from letter
      )
    end as problem
    from (
      select 'queue' as field, new.queue as value, 255 as most
      union all
      select 'kind', new.kind, 255
      union all
      select 'group', new.group_key, 255
      union all
      select 'unique_key', new.unique_key, 512
    )
  )
  where problem is not null;

  select case
    when new.max_attempts is not null
      and not (new.max_attempts = cast(new.max_attempts as integer) and cast(new.max_attempts as integer) between 0 and 1000000)
      then raise(abort, 'max_attempts: must be 1 to 1000000, or 0 for the queue''s')
    when new.delay is not null and new.run_at is not null and new.run_at <> '' and cast(new.delay as real) <> 0
      then raise(abort, 'delay: give either delay or run_at, not both')
    when new.delay is not null and typeof(new.delay) not in ('integer', 'real') and not (new.delay = cast(new.delay as real))
      then raise(abort, 'delay: must be a number of seconds')
    when cast(new.delay as real) < 0
      then raise(abort, 'delay: must not be negative')
    when cast(new.delay as real) > 315360000
      then raise(abort, 'delay: must be at most 87600h0m0s (315360000 seconds)')
    when new.run_at is not null and new.run_at <> '' then case
      when typeof(new.run_at) = 'text' then case
        when new.run_at not glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
          or julianday(new.run_at) is null
          or instr(new.run_at, char(0)) > 0
          or date(substr(new.run_at, 1, 10), '+0 days') is not substr(new.run_at, 1, 10)
          then raise(abort, 'run_at: must be a time as 2026-11-23T16:30:00Z, or a number of seconds since 1970, not as text')
        when julianday(new.run_at) < 1721425.5
          then raise(abort, 'run_at: must lie in the years 1 to 9999')
        end
      when typeof(new.run_at) = 'blob'
        then raise(abort, 'run_at: must be a time as 2026-11-23T16:30:00Z, or a number of seconds since 1970, not as text')
      when new.run_at < -62135596800 or new.run_at >= 253402300800
        then raise(abort, 'run_at: must lie in the years 1 to 9999')
      end
  end;

  select case
    when new.priority is not null
      and not (new.priority = cast(new.priority as integer) and cast(new.priority as integer) between 0 and 32767)
      then raise(abort, 'priority: must be 0 to 32767')
    when new.unique_until <> '' and new.unique_until not in ('finished', 'claimed')
      then raise(abort, 'unique_until: must be "finished" or "claimed"')
    when new.if_held <> '' and new.if_held not in ('keep', 'replace', 'push')
      then raise(abort, 'if_held: must be "keep", "replace" or "push"')
    when new.unique_for is not null and typeof(new.unique_for) not in ('integer', 'real') and not (new.unique_for = cast(new.unique_for as real))
      then raise(abort, 'unique_for: must be a number of seconds')
    when new.delay_limit is not null and typeof(new.delay_limit) not in ('integer', 'real') and not (new.delay_limit = cast(new.delay_limit as real))
      then raise(abort, 'delay_limit: must be a number of seconds')
    when coalesce(new.unique_key, '') = '' then case
      when new.unique_until <> '' then raise(abort, 'unique_until: needs a unique_key')
      when cast(new.unique_for as real) <> 0 then raise(abort, 'unique_for: needs a unique_key')
      when new.unique_window <> '' then raise(abort, 'unique_window: needs a unique_key')
      when new.if_held <> '' then raise(abort, 'if_held: needs a unique_key')
      when cast(new.delay_limit as real) <> 0 then raise(abort, 'delay_limit: needs a unique_key')
      end
    when cast(new.delay_limit as real) < 0
      then raise(abort, 'delay_limit: must not be negative')
    when cast(new.delay_limit as real) > 315360000
      then raise(abort, 'delay_limit: must be at most 87600h0m0s (315360000 seconds)')
    when new.if_held = 'push' and coalesce(cast(new.delay as real), 0) = 0 and coalesce(new.run_at, '') = ''
      then raise(abort, 'run_at: is missing: if_held "push" moves run_at on; give it or a delay')
    when new.if_held = 'push' and coalesce(cast(new.delay_limit as real), 0) = 0
      then raise(abort, 'delay_limit: is missing: without it, if_held "push" could put a job off for ever')
    when cast(new.delay_limit as real) <> 0 and coalesce(new.if_held, '') in ('', 'keep')
      then raise(abort, 'delay_limit: needs if_held "replace" or "push"')
    when cast(new.delay_limit as real) <> 0 and coalesce(cast(new.delay as real), 0) = 0 and coalesce(new.run_at, '') = ''
      then raise(abort, 'delay_limit: needs run_at or delay')
    when cast(new.unique_for as real) <> 0 and new.unique_window <> ''
      then raise(abort, 'unique_window: give either unique_for or unique_window, not both')
    when cast(new.unique_for as real) < 0
      then raise(abort, 'unique_for: must not be negative')
    when cast(new.unique_for as real) > 315360000
      then raise(abort, 'unique_for: must be at most 87600h0m0s (315360000 seconds)')
    when cast(new.unique_for as real) <> 0 and cast(new.unique_for as real) < 0.001
      then raise(abort, 'unique_for: must be at least 1ms (0.001 seconds)')
    when new.unique_window <> '' and new.unique_window not in (
        'hour', 'day', 'week', 'month', 'hour in UTC', 'day in UTC', 'week in UTC', 'month in UTC')
      then case
      when rtrim(substr(new.unique_window, 1, instr(new.unique_window, ' in ') + 3)) in ('hour in', 'day in', 'week in', 'month in')
        then raise(abort, 'unique_window: must be in UTC in SQL; give unique_for until the end of the window')
      else raise(abort, 'unique_window: must be "hour", "day", "week" or "month"')
      end
  end;

  select case
    when new.payload is not null and typeof(new.payload) <> 'text'
      then raise(abort, 'payload: must be JSON as text')
    when new.payload = ''
      then raise(abort, 'payload: is empty; it must be JSON (null for none)')
    when length(cast(new.payload as blob)) > coalesce((
        select payload_limit
        from dibs_queue
        where name = coalesce(nullif(cast(new.queue as text), ''), 'default')
      ), 1048576)
      then raise(abort, 'payload: is over the limit of its queue')
    when new.payload is not null and (not json_valid(new.payload) or instr(new.payload, char(0)) > 0)
      then raise(abort, 'payload: is not valid JSON')
    when new.metadata is not null and typeof(new.metadata) <> 'text'
      then raise(abort, 'metadata: must be JSON as text')
    when length(cast(new.metadata as blob)) > 16384
      then raise(abort, 'metadata: is over the limit of 16384 bytes')
    when new.metadata <> '' and (not json_valid(new.metadata) or instr(new.metadata, char(0)) > 0)
      then raise(abort, 'metadata: is not valid JSON')
    when new.metadata <> '' and json_type(new.metadata) <> 'object'
      then raise(abort, 'metadata: must be a JSON object')
    when instr(lower(new.metadata), '"dibs.') > 0 and exists (select 1 from json_each(new.metadata) m where lower(substr(m.key, 1, 5)) = 'dibs.')
      then raise(abort, 'metadata: must not have members whose names begin with "dibs.": only dibs writes those')
  end;

  select case
    when max(typeof(a.id) <> 'integer' or a.need not in ('completed', 'ended', 'failed'))
      then raise(abort, 'after: must be a JSON array of ids, or of objects such as {"id": 17, "on": "ended"}')
    when count(*) > 0 and new.if_held in ('replace', 'push')
      then raise(abort, 'after: must be empty with if_held "replace" or "push": the job that holds the key keeps what it waits for')
    when count(distinct case when a.need <> 'ended' then a.id || a.need end) > count(distinct case when a.need <> 'ended' then a.id end)
      then raise(abort, 'after: a job cannot come after one other that is both completed and failed')
    when max(not exists (select 1 from dibs_job j where j.id = a.id) and not exists (select 1 from dibs_finished f where f.id = a.id))
      then raise(abort, 'after: there is no job with one of the ids')
  end
  from (
    select
      case
        when e.type = 'integer' then e.value
        when e.type = 'object' and json_remove(e.value, '$.id', '$.on') = '{}' then e.value ->> 'id'
      end as id,
      coalesce(iif(e.type = 'object', e.value ->> 'on', null), 'completed') as need
    from json_each(case when new.after = '' then '[]' when json_valid(new.after) and json_type(new.after) = 'array' then new.after else '[null]' end) e
    where new.after is not null
  ) a;

  -- As clock.sql. SQLite's clock counts milliseconds.
  update dibs_clock
  set
    now = max(now + 1, iif(s.system >= now, s.system, now + (s.system - seen) / 2)),
    seen = s.system
  from (select cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 as system) s
  where one = 1;

  -- dibs.DefaultSettings
  insert into dibs_queue (
    name, paused, concurrency, group_limit, strict, claim_order, lease, max_attempts,
    backoff_base, backoff_factor, backoff_max, backoff_jitter,
    keep_completed, keep_dead, keep_cancelled, payload_limit, created_at
  )
  select
    q.name, 0, 0, 1, 0, 'fifo', 10000000, 25,
    1000000, 2.0, 3600000000, 0.25,
    86400000000, 1209600000000, 86400000000, 1048576, c.now
  from (select coalesce(nullif(cast(new.queue as text), ''), 'default') as name) q, dibs_clock c
  where not exists (
    select 1
    from dibs_queue k
    where k.name = q.name
  );

  insert into dibs_checked_job
  select
    j.queue,
    coalesce(nullif(cast(new.kind as text), ''), j.queue),
    coalesce(cast(new.priority as integer), 255),
    j.now,
    max(j.now, j.starts_at),
    j.given,
    case
      when j.after is not null then 5
      when j.group_key is null then 0
      when j.starts_at > j.now or j.rated then 2
      else 1
    end,
    j.rated,
    coalesce(nullif(cast(new.max_attempts as integer), 0), j.max_attempts),
    j.group_key,
    j.unique_key,
    case when j.unique_key is not null then coalesce(nullif(new.unique_until, ''), 'finished') end,
    case
      when cast(new.unique_for as real) <> 0 then j.now + cast(round(cast(new.unique_for as real) * 1000000) as integer)
      when new.unique_window glob 'hour*' then (j.now / 3600000000 + 1) * 3600000000
      when new.unique_window glob 'day*' then (j.now / 86400000000 + 1) * 86400000000
      when new.unique_window glob 'week*' then ((j.now / 86400000000 + 3) / 7 * 7 + 4) * 86400000000 -- 1970 began on a Thursday
      when new.unique_window glob 'month*' then strftime('%s', j.now / 1000000, 'unixepoch', 'start of month', '+1 month') * 1000000
    end,
    nullif(new.if_held, ''),
    cast(round(cast(new.delay_limit as real) * 1000000) as integer),
    nullif(new.metadata, ''),
    coalesce(new.payload, 'null'),
    j.after
  from (
    select
      c.now,
      case when json_array_length(nullif(new.after, '')) > 0 then new.after end as after,
      q.name as queue,
      q.max_attempts,
      nullif(cast(new.group_key as text), '') as group_key,
      nullif(cast(new.unique_key as text), '') as unique_key,
      q.claim_order = 'fair' or q.group_rates and exists (
        select 1
        from dibs_rate r
        where r.queue = q.name and r.group_key = cast(new.group_key as text) and r.n > 0
      ) as rated,
      coalesce(cast(new.delay as real), 0) <> 0 or coalesce(new.run_at, '') <> '' as given,
      case
        when coalesce(new.run_at, '') = '' then c.now + cast(round(coalesce(cast(new.delay as real), 0) * 1000000) as integer)
        when typeof(new.run_at) = 'text' then cast(round((julianday(new.run_at) - 2440587.5) * 86400000) as integer) * 1000
        when typeof(new.run_at) = 'integer' then new.run_at * 1000000
        else cast(round(new.run_at * 1000000) as integer)
      end as starts_at
    from dibs_clock c, dibs_queue q
    where c.one = 1 and q.name = coalesce(nullif(cast(new.queue as text), ''), 'default')
  ) j;
end;

-- Inserted into by dibs_new_job_check alone, as are the next views by these triggers.
create view dibs_bad_name as
select null as field, null as problem
where false;

create trigger dibs_bad_name_refuse instead of insert on dibs_bad_name
begin
  select case new.field || ' ' || new.problem
    when 'queue type' then raise(abort, 'queue: must be text')
    when 'queue url' then raise(abort, 'queue: must not contain ://: the URL of a database goes to --db')
    when 'queue length' then raise(abort, 'queue: is over the limit of 255 bytes')
    when 'queue utf-8' then raise(abort, 'queue: is not valid UTF-8')
    when 'queue control' then raise(abort, 'queue: must not contain control characters')
    when 'queue direction' then raise(abort, 'queue: must not contain characters that turn the direction of text or separate lines')
    when 'kind type' then raise(abort, 'kind: must be text')
    when 'kind length' then raise(abort, 'kind: is over the limit of 255 bytes')
    when 'kind utf-8' then raise(abort, 'kind: is not valid UTF-8')
    when 'kind control' then raise(abort, 'kind: must not contain control characters')
    when 'kind direction' then raise(abort, 'kind: must not contain characters that turn the direction of text or separate lines')
    when 'group type' then raise(abort, 'group: must be text')
    when 'group length' then raise(abort, 'group: is over the limit of 255 bytes')
    when 'group utf-8' then raise(abort, 'group: is not valid UTF-8')
    when 'group control' then raise(abort, 'group: must not contain control characters')
    when 'group direction' then raise(abort, 'group: must not contain characters that turn the direction of text or separate lines')
    when 'unique_key type' then raise(abort, 'unique_key: must be text')
    when 'unique_key length' then raise(abort, 'unique_key: is over the limit of 512 bytes')
    when 'unique_key utf-8' then raise(abort, 'unique_key: is not valid UTF-8')
    when 'unique_key control' then raise(abort, 'unique_key: must not contain control characters')
    when 'unique_key direction' then raise(abort, 'unique_key: must not contain characters that turn the direction of text or separate lines')
  end;
end;

-- A job that keeps all rules. run_at is now or later; gate is that before its group is settled,
-- 2 in a group with a rate: the next claim settles that group. free_at ends the key's period.
create view dibs_checked_job as
select
  null as queue,
  null as kind,
  null as priority,
  null as now,
  null as run_at,
  null as run_at_given,
  null as gate,
  null as rated,
  null as max_attempts,
  null as group_key,
  null as unique_key,
  null as unique_until,
  null as free_at,
  null as if_held,
  null as delay_limit,
  null as metadata,
  null as payload,
  null as after
where false;

create trigger dibs_checked_job_store instead of insert on dibs_checked_job
begin
  insert into dibs_enqueued (one, existing, replaced, pushed)
  values (1, 0, 0, 0)
  on conflict (one) do update
  set
    existing = 0,
    replaced = 0,
    pushed = 0;

  insert into dibs_keyed_job
  select
    new.queue, new.kind, new.priority, new.now, new.run_at, new.run_at_given, new.rated, new.max_attempts, new.group_key,
    new.unique_key, new.free_at, new.if_held, new.delay_limit, new.metadata, new.payload
  where new.unique_key is not null;

  insert into dibs_job (
    queue, kind, priority, run_at, gate, max_attempts, group_key,
    unique_key, unique_until, unique_held, created_at, metadata, payload
  )
  select
    new.queue, new.kind, new.priority, new.run_at, new.gate, new.max_attempts, new.group_key,
    new.unique_key, new.unique_until, new.unique_key is not null, new.now, new.metadata, new.payload
  from dibs_enqueued
  where not existing;

  update dibs_enqueued
  set id = last_insert_rowid()
  where not existing;

  insert into dibs_unique_window (queue, unique_key, until, job)
  select new.queue, new.unique_key, new.free_at, e.id
  from dibs_enqueued e
  where not e.existing and new.free_at is not null
  on conflict (queue, unique_key) do update
  set
    until = excluded.until,
    job = excluded.job;

  insert into dibs_recount (queue, minute, waiting, blocked, enqueued)
  select new.queue, new.now / 60000000, new.gate not in (1, 5), new.gate in (1, 5), 1
  from dibs_enqueued
  where not existing;

  insert into dibs_unsettled_group (queue, group_key, now)
  select new.queue, new.group_key, new.now
  from dibs_enqueued
  where not existing and new.gate = 1;

  -- As link in flow.go. A sweep looks at the list.
  insert into dibs_edge (child, parent, need, stage)
  select
    e.id,
    coalesce(a.value ->> 'id', a.value),
    coalesce(max(nullif(coalesce(a.value ->> 'on', 'completed'), 'ended')), 'ended'),
    1
  from dibs_enqueued e, json_each(new.after) a
  where not e.existing
  group by 2;

  update dibs_job
  set flow = id
  where new.after is not null and id = (select e.id from dibs_enqueued e where not e.existing);

  update dibs_job
  set followed = 1
  where new.after is not null and id in (select g.parent from dibs_enqueued e join dibs_edge g on g.child = e.id where not e.existing);

  update dibs_finished
  set followed = 1
  where new.after is not null and id in (select g.parent from dibs_enqueued e join dibs_edge g on g.child = e.id where not e.existing);

  insert into dibs_ended_list (ids)
  select json_group_array(g.parent)
  from dibs_enqueued e
  join dibs_edge g on g.child = e.id
  where new.after is not null and not e.existing
  having count(*) > 0;
end;

-- A job with a unique key, which meets the holder of its key (unique.go).
create view dibs_keyed_job as
select
  null as queue,
  null as kind,
  null as priority,
  null as now,
  null as run_at,
  null as run_at_given,
  null as rated,
  null as max_attempts,
  null as group_key,
  null as unique_key,
  null as free_at,
  null as if_held,
  null as delay_limit,
  null as metadata,
  null as payload
where false;

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

-- Changes of a queue's counts, as tally.sql.
create view dibs_recount as
select
  null as queue,
  null as minute,
  null as waiting,
  null as blocked,
  null as enqueued
where false;

create trigger dibs_recount_add instead of insert on dibs_recount
begin
  insert into dibs_tally (
    queue, minute, waiting, blocked, running, completed, dead, cancelled,
    enqueued, claimed, succeeded, failed, wait_us, run_us
  )
  values (new.queue, new.minute, new.waiting, new.blocked, 0, 0, 0, 0, new.enqueued, 0, 0, 0, 0, 0)
  on conflict (queue, minute) do update
  set
    waiting = waiting + excluded.waiting,
    blocked = blocked + excluded.blocked,
    enqueued = enqueued + excluded.enqueued;
end;

-- A waiting job that has been replaced, or pushed: then only its run_at and gate are new.
create view dibs_changed_job as
select
  null as id,
  null as queue,
  null as now,
  null as replaced,
  null as old_gate,
  null as old_group_key,
  null as kind,
  null as priority,
  null as run_at,
  null as gate,
  null as group_key,
  null as max_attempts,
  null as metadata,
  null as payload
where false;

create trigger dibs_changed_job_store instead of insert on dibs_changed_job
begin
  update dibs_job
  set
    run_at = new.run_at,
    gate = new.gate
  where id = new.id and not new.replaced;

  update dibs_job
  set
    kind = new.kind,
    priority = new.priority,
    run_at = new.run_at,
    gate = new.gate,
    max_attempts = new.max_attempts,
    group_key = new.group_key,
    metadata = new.metadata,
    payload = new.payload,
    excused = attempt
  where id = new.id and new.replaced;

  delete from dibs_step
  where job = new.id and new.replaced;

  insert into dibs_recount (queue, minute, waiting, blocked, enqueued)
  select
    new.queue,
    new.now / 60000000,
    (new.gate <> 1) - (new.old_gate <> 1),
    (new.gate = 1) - (new.old_gate = 1),
    0
  where (new.gate = 1) <> (new.old_gate = 1);

  insert into dibs_unsettled_group (queue, group_key, now)
  select new.queue, new.old_group_key, new.now
  where new.old_group_key is not null;

  insert into dibs_unsettled_group (queue, group_key, now)
  select new.queue, new.group_key, new.now
  where new.group_key is not new.old_group_key and new.group_key is not null;
end;

-- A group of which one job has come, has left or has another place in the order. It was settled
-- before, so at most one job loses its place (displace.sql), and one gets a place (admit.sql). If
-- the group has a rate, its own or its queue's, the next claim settles it.
create view dibs_unsettled_group as
select null as queue, null as group_key, null as now
where false;

create trigger dibs_unsettled_group_settle instead of insert on dibs_unsettled_group
begin
  update dibs_rate
  set held_until = new.now
  where queue = new.queue and group_key = new.group_key and n > 0;

  insert into dibs_rate (queue, group_key, held_until)
  select q.name, new.group_key, new.now
  from dibs_queue q
  where q.name = new.queue and q.group_rate_n > 0
  on conflict (queue, group_key) do update
  set held_until = excluded.held_until;

  insert into dibs_settling_group
  select
    new.queue,
    new.group_key,
    new.now,
    coalesce((
      select l.places
      from dibs_group_limit l
      where l.queue = new.queue and l.group_key = new.group_key
    ), q.group_limit),
    (
      select count(*)
      from dibs_job j indexed by dibs_job_place
      where j.queue = new.queue and j.group_key = new.group_key and j.group_key is not null and j.gate in (0, 3)
    ),
    q.strict
  from dibs_queue q
  where q.name = new.queue and q.group_rate_n = 0 and not exists (
      select 1
      from dibs_rate r
      where r.queue = new.queue and r.group_key = new.group_key and r.n > 0
    );
end;

create view dibs_settling_group as
select
  null as queue,
  null as group_key,
  null as now,
  null as places,
  null as held,
  null as strict
where false;

create trigger dibs_settling_group_settle instead of insert on dibs_settling_group
begin
  update dibs_job
  set gate = 1
  where new.held >= new.places and id = (
      select l.id
      from (
        select j.id, j.priority, j.run_at
        from dibs_job j indexed by dibs_job_place
        where j.queue = new.queue and j.group_key = new.group_key and j.group_key is not null and j.gate in (0, 3)
          and j.token is null and j.run_at <= new.now and not (new.strict and j.attempt > 0)
        order by j.priority desc, j.run_at desc, j.id desc
        limit 1
      ) l
      where (l.priority, l.run_at, l.id) > (
        select b.priority, b.run_at, b.id
        from dibs_job b indexed by dibs_job_blocked
        where b.queue = new.queue and b.group_key = new.group_key and b.gate = 1
        order by b.priority, b.run_at, b.id
        limit 1
      )
    );

  -- changes() counts the statement before.
  insert into dibs_admitted_group
  select new.queue, new.group_key, new.now, changes()
  where changes() > 0 or new.held < new.places;
end;

create view dibs_admitted_group as
select null as queue, null as group_key, null as now, null as displaced
where false;

create trigger dibs_admitted_group_admit instead of insert on dibs_admitted_group
begin
  update dibs_job
  set gate = 0
  where id = (
    select b.id
    from dibs_job b indexed by dibs_job_blocked
    where b.queue = new.queue and b.group_key = new.group_key and b.gate = 1
    order by b.priority, b.run_at, b.id
    limit 1
  );

  insert into dibs_recount (queue, minute, waiting, blocked, enqueued)
  select new.queue, new.now / 60000000, changes() - new.displaced, new.displaced - changes(), 0
  where changes() <> new.displaced;
end;
