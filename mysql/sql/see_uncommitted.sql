-- Purpose: find out whether a transaction sees what others have not committed.
-- Parameters: ?1 the row that another transaction has just inserted.
-- Columns out: 1 if it sees the row, as in READ UNCOMMITTED, else 0.
-- Concurrency: a plain read. In SERIALIZABLE it would wait for the other transaction, so that is ruled out before.
select count(*)
from dibs_turn
where what = 'uncommitted' and queue = ?1
