-- Purpose: end the sharing of a queue's claims on a cluster.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: it waits for the claims of its node, and has those of other nodes fail that have not committed.
update json_table(concat('[0', repeat(',0', 63), ']'), '$[*]' columns (nth for ordinality)) i
straight_join dibs_turn t force index (primary) on t.what = concat('slot', i.nth - 1) and t.queue = ?1
set t.n = t.n + 1
