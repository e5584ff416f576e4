-- Purpose: note a group whose place becomes free when the caller's transaction commits.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: none.
-- Concurrency: written in the transaction that frees the place, seen by others after it.
insert into dibs_wake (queue, group_key)
values (?1, ?2)
on conflict do nothing
