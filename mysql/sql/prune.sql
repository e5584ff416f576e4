-- Purpose: delete the oldest finished jobs of a queue in one state.
-- Parameters: ?1 queue, ?2 state, ?3 only jobs that finished up to this time, ?4 how many.
-- Columns out: none.
-- Concurrency: it deletes what prune_steps.sql has locked just before.
delete f
from json_table(@dibs_pruned, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
where f.queue = ?1 and f.state = ?2 and f.finished_at <= ?3 and ?4 > 0
