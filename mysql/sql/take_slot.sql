-- Purpose: take the turn of a claim on a cluster together with others until the transaction ends.
-- Parameters: ?1 queue.
-- Columns out: 1 if it is taken; 1 if the queue has slots.
-- Concurrency: it takes one of the eight slots of its node that is free, and never waits. The row changes, so that it cannot commit
--   after a transaction that has changed all slots (bar_slots.sql), whose changes it does not know.
select max(x.what) into @dibs_locked
from (
  select t.what
  from json_table('[0,1,2,3,4,5,6,7]', '$[*]' columns (slot int path '$')) i
  straight_join dibs_turn t force index (primary) on t.what = concat('slot', (@@auto_increment_offset - 1) % 8 * 8 + i.slot) and t.queue = ?1
  limit 1
  for update skip locked
) x
-- then
update dibs_turn
set n = n + 1
where what = @dibs_locked and queue = ?1
-- then
select @dibs_locked is not null, exists (
  select 1
  from dibs_turn
  where what = 'slot0' and queue = ?1
)
