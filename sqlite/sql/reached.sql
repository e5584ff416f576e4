-- Purpose: find the turn to which the claims of a fair queue have come, and count an admission.
-- Parameters: ?1 queue.
-- Columns out: turn; number of the admission.
-- Concurrency: in the turn of an admission.
insert into dibs_reached (queue, turn, admitted)
values (?1, 1, 1)
on conflict (queue) do update
set admitted = admitted + 1
returning turn, admitted
