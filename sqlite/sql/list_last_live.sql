-- Purpose: find where a list of jobs that are not final stops that few jobs match.
-- Parameters: ?1 only ids below this; ?2 how many jobs the list looks at, less one.
-- Columns out: 0; the id of the last job that it looks at. No row if there are fewer.
-- Concurrency: a plain read along the primary key; locks nothing.
select 0, id
from dibs_job
where id < ?1
order by id desc
limit 1 offset ?2
