-- Purpose: forget a claim all of whose jobs were finished in one call; the sweep
--   forgets the others.
-- Parameters: ?1 token, ?2 how many of its jobs were finished.
-- Columns out: none.
-- Concurrency: in the transaction of the finish.
delete from dibs_claim
where token = ?1 and json_array_length(ids) = ?2
