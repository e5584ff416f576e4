-- Purpose: have the sweep look at claims sooner, after one of their leases was shortened.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the extension. It changes nothing if the sweep looks in time anyway.
declare
  @tokens nvarchar(max) = ?1,
  @at bigint = ?2;
update c
set check_at = @at
from openjson(@tokens) with (token varchar(32) '$') i
join dibs_claim c with (rowlock, updlock, forceseek) on c.token = convert(binary(16), i.token, 2)
where c.check_at > @at
option (force order, loop join, maxdop 1);
