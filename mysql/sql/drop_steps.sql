-- Purpose: delete the steps of jobs that are deleted, or become new ones.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the jobs.
delete s
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_step s force index (by_job) on s.job = i.id
