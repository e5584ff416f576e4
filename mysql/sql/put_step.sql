-- Purpose: write that a step is done.
-- Parameters: ?1 job, ?2 name, ?3 value.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
insert into dibs_step (job, name, value) values (?1, ?2, ?3)
