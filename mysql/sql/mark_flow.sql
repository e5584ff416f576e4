-- Purpose: note the flow of new jobs, and whether others come after them.
-- Parameters: ?1 a JSON array of objects: id, followed; ?2 flow.
-- Columns out: none.
-- Concurrency: in the transaction that has inserted the jobs.
-- The insert does not do it, so that it stays as it is for jobs of no flow.
update json_table(?1, '$[*]' columns (id bigint path '$.id', followed tinyint path '$.followed')) l
straight_join dibs_job j force index (primary) on j.id = l.id
set
  j.flow = ?2,
  j.followed = l.followed
