-- Purpose: delete the turns of a fair queue that are not its turn any more.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: the greatest turn that the snapshot sees stays, so the queue's turn never goes back.
--   Rows that another process deletes are skipped. It runs once a second, not with each admission: while
--   an old snapshot is open, it reads past all rows that were deleted since.
delete from dibs.reached
where ctid = any (array(
    select ctid
    from dibs.reached
    where queue = $1 and turn < (select max(turn) from dibs.reached where queue = $1)
    limit 10000
    for update skip locked
))
