-- Purpose: have the running jobs of a queue that gets a concurrency limit counted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that sets the limit. Appends a row, so it waits for nobody.
insert into dibs_limit_set (queue)
values (?1)
