-- Purpose: find out whether a transaction has locked the gap in which a row would be.
-- Parameters: ?1 the row.
-- Columns out: none. It fails with 1205 if the gap is locked, and else with 1062.
-- Concurrency: beside the transaction. As it fails, it writes nothing.
insert into dibs_turn (what, queue) values ('gap', ?1), ('gap', ?1)
