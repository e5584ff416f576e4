-- Purpose: count the rows that other transactions have locked, of those that a claim may lock.
-- Parameters: ?1 queue, ?2 a JSON array of ids of jobs.
-- Columns out: table; how many rows there are; how many of them can be locked together with others; how many alone.
-- Concurrency: in a transaction that is rolled back at once. It passes over locked rows; those that it can lock it holds for that
--   moment, in which another claim may miss its turn.
select count(*) into @dibs_jobs_shared
from (
  select j.id
  from json_table(?2, '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job j force index (primary) on j.id = i.id
  limit 1000000
  lock in share mode skip locked
) x
-- then
select count(*) into @dibs_turns_shared
from (
  select t.what
  from dibs_turn t force index (primary)
  where t.what in ('claim', 'admit', 'queue') and t.queue = ?1
  limit 10
  lock in share mode skip locked
) x
-- then
select count(*) into @dibs_turns_alone
from (
  select t.what
  from dibs_turn t force index (primary)
  where t.what in ('claim', 'admit', 'queue') and t.queue = ?1
  limit 10
  for update skip locked
) x
-- then
select count(*) into @dibs_rates_alone
from (
  select r.queue
  from dibs_rate r force index (primary)
  where r.queue = ?1
  limit 10000
  for update skip locked
) x
-- then
select 'job', count(*), @dibs_jobs_shared, @dibs_jobs_shared
from json_table(?2, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
union all
select 'turn', count(*), @dibs_turns_shared, @dibs_turns_alone
from dibs_turn t force index (primary)
where t.what in ('claim', 'admit', 'queue') and t.queue = ?1
union all
select 'rate', count(*), @dibs_rates_alone, @dibs_rates_alone
from (
  select r.queue
  from dibs_rate r force index (primary)
  where r.queue = ?1
  limit 10000
) r
