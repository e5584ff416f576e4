-- Purpose: note how long a group's rate holds up its jobs.
-- Parameters: ?1 queue, ?2 group; ?3 when the jobs that hold its places may start; ?4 when it is
--   to be settled anew, or null.
-- Columns out: none.
-- Concurrency: the only write transaction of the file, which has given the group's places.
update dibs_rate
set not_before = ?3, held_until = ?4
where queue = ?1 and group_key = ?2 and (not_before <> ?3 or held_until is not ?4)
