-- Purpose: read the unique keys of finished jobs, to lock them before the jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: queue, unique key.
-- Concurrency: a plain read. Neither changes while a job is finished.
declare
  @ids nvarchar(max) = ?1;
select f.queue, f.unique_key
from openjson(@ids) with (id bigint '$') i
join dibs_finished f with (forceseek) on f.id = i.id
where f.unique_key is not null
option (force order, loop join, maxdop 1);
