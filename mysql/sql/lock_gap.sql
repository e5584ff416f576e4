-- Purpose: look for a row that does not exist, to find out the isolation of a caller's transaction.
-- Parameters: ?1 the row.
-- Columns out: none.
-- Concurrency: in REPEATABLE READ and SERIALIZABLE it locks the gap in which the row would be, until the transaction ends.
select what
from dibs_turn
where what = 'gap' and queue = ?1
for update
