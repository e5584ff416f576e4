-- 0006: what the attempts of jobs have done, one row for each step.
-- Compatible with programs that know version 1.

create table dibs_step (
  job integer not null, -- live or finished
  name text not null,
  value text not null, -- JSON
  primary key (job, name)
) strict;

-- As in 0002, but a job that becomes a new one has no steps.
drop trigger dibs_changed_job_store;

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
