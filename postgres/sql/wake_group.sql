-- Purpose: have a group admitted anew after its limit or its rate changed.
-- Parameters: $1 queue, $2 group.
-- Columns out: none.
-- Concurrency: appends a row, whether the group has jobs or not: one that is admitted before this is
--   committed, by the old settings, is not claimed until it is admitted by the new ones.
insert into dibs.wake (queue, group_key)
values ($1, $2)
