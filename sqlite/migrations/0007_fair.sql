-- 0007: queues whose groups take turns.
-- Compatible with programs that know version 1.

-- In a queue with order fair, a job gets its turn with its place, and the number of the
-- admission. Claims go by turn, then admitted. Null: the job has none, and comes last.
alter table dibs_job
  add column turn integer;
alter table dibs_job
  add column admitted integer;

create index dibs_job_fair on dibs_job (queue, turn, admitted, id, kind, run_at, token)
  where gate = 0 and token is null and turn is not null;

-- The turn to which the claims of a fair queue have come, and the number of the last admission.
create table dibs_reached (
  queue text primary key,
  turn integer not null,
  admitted integer not null
) strict, without rowid;
