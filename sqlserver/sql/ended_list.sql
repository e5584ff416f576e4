-- Purpose: read the jobs that earlier transactions have left.
-- Parameters: ?1 how many rows.
-- Columns out: id of the row; a JSON array of ids of jobs.
-- Concurrency: the transaction deletes the rows by their ids (drop_ended.sql): rows that others add meanwhile stay.
declare
  @n int = ?1;
select top (@n)
  id,
  ids
from dibs_ended_list
order by id;
