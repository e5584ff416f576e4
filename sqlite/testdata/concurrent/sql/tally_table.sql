-- Purpose: replace the table of counts by one to which transactions append, for tests of the concurrent mode on SQLite.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: run once, in a write transaction, before anything is counted.
drop table dibs_tally;

create table dibs_tally (
  id integer primary key,
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
  run_us integer not null
) strict;

create index dibs_tally_by_minute on dibs_tally (queue, minute);
