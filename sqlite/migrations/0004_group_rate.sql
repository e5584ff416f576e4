-- 0004: a rate that each group of a queue has, unless it has one of its own.
-- Compatible with programs that know version 1.

-- Starts of the jobs of each group; per in microseconds.
alter table dibs_queue
  add column group_rate_n integer not null default 0;
alter table dibs_queue
  add column group_rate_per integer not null default 0;
alter table dibs_queue
  add column group_rate_burst integer not null default 0
  constraint queue_group_rate_is_n_per_1s_to_31days_with_burst check (
    (group_rate_n = 0 and group_rate_burst >= 0)
    or (group_rate_n between 1 and 1000000000 and group_rate_per between 1000000 and 2678400000000 and group_rate_burst between 0 and 1000000000)
  );

-- A row of dibs_rate with a group and n = 0 is that of a group with its queue's rate. The
-- sweep deletes it when all is saved up again, and finds it by this index.
create index dibs_rate_saved on dibs_rate (full_ns) where n = 0 and group_key <> '';

-- As in 0002: if the group has a rate, its own or its queue's, the next claim settles it.
drop trigger dibs_unsettled_group_settle;

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
