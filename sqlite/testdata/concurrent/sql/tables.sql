-- Purpose: make the tables that a database needs in which others write meanwhile, for tests of that mode on SQLite.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: run once, when the file is made.
-- dibs_locked stands for row locks: a job that it names is passed over, as if another transaction held it.
create table if not exists dibs_wake (
  id integer primary key,
  queue text not null,
  group_key text not null,
  not_before integer not null
) strict;

create index if not exists dibs_wake_by_group on dibs_wake (queue, group_key);

create table if not exists dibs_start (
  id integer primary key,
  queue text not null,
  at integer not null,
  groups text not null
) strict;

create table if not exists dibs_limit_set (
  id integer primary key,
  queue text not null
) strict;

create table if not exists dibs_locked (id integer primary key) strict;
