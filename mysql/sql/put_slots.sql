-- Purpose: make the slots of a queue's claims, unless they exist.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: beside the transaction that needs them, so that nobody waits for its end. All or none of them exist.
insert ignore into dibs_turn (what, queue)
select concat('slot', i.nth - 1), ?1
from json_table(concat('[0', repeat(',0', 63), ']'), '$[*]' columns (nth for ordinality)) i
where not exists (select 1 from dibs_turn t where t.what = 'slot0' and t.queue = ?1)
