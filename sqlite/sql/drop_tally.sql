-- Purpose: delete the minutes that merge_tally.sql has added to minute 0.
-- Parameters: ?1 the first minute to keep.
-- Columns out: none.
-- Concurrency: in one write transaction with the addition.
delete from dibs_tally
where minute > 0 and minute < ?1
