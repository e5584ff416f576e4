-- Purpose: find the turn to which the claims of a fair queue have come, and count an admission.
-- Parameters: ?1 queue.
-- Columns out: turn; number of the admission.
-- Concurrency: in the turn to admit.
insert into dibs_reached (queue, turn, admitted)
values (?1, 1, 1)
on duplicate key update admitted = admitted + 1
-- then
select turn, admitted
from dibs_reached
where queue = ?1
