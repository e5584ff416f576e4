-- Purpose: change the priority and run_at of jobs that wait.
-- Parameters: ?1 a JSON array of objects: id, priority, run_at, gate.
-- Columns out: none.
-- Concurrency: the jobs are locked (live.sql); a claimed job is not changed.
update json_table(?1, '$[*]' columns (
  id bigint path '$.id',
  priority int path '$.priority',
  run_at bigint path '$.run_at',
  gate int path '$.gate'
)) l
straight_join dibs_job j force index (primary) on j.id = l.id
set
  j.priority = l.priority,
  j.run_at = l.run_at,
  j.gate = l.gate
where j.gate <> 3
