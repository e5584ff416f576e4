-- Purpose: find out whether a transaction has locked the gap in which a row would be, and leave another row uncommitted.
-- Parameters: ?1 the row in the gap; ?2 the other one.
-- Columns out: none. It fails with 1205 if the gap is locked.
-- Concurrency: beside the transaction. The row in the gap is gone at once, so that others find the gap free; the other one is
--   when the transaction has looked for it (see_uncommitted.sql). Nothing is committed.
start transaction
-- then
insert into dibs_turn (what, queue) values ('gap', ?1)
-- then
rollback
-- then
start transaction
-- then
insert into dibs_turn (what, queue) values ('uncommitted', ?2)
