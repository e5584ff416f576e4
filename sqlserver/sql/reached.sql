-- Purpose: find the turn to which the claims of a fair queue have come, and count an admission.
-- Parameters: ?1 queue.
-- Columns out: turn; number of the admission.
-- Concurrency: in the turn to admit.
declare
  @queue varbinary(255) = ?1;
update dibs_reached
set admitted = admitted + 1
where queue = @queue;
if @@rowcount = 0
  insert into dibs_reached (queue, turn, admitted)
  values (@queue, 1, 1);
select turn, admitted
from dibs_reached
where queue = @queue;
