-- Purpose: read who the database is.
-- Parameters: none.
-- Columns out: a text that no other database has.
-- Concurrency: a plain read.
select queue
from dibs_turn
where what = 'database'
