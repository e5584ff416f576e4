-- Purpose: have the sweep look at claims later: when the next of their leases end.
-- Parameters: ?1 a JSON array of objects: token in hexadecimal digits, and at, when to look.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep, which has locked the claims (due_claims.sql).
declare
  @claims nvarchar(max) = ?1;
update c
set check_at = i.at
from openjson(@claims) with (token varchar(32) '$.token', at bigint '$.at') i
join dibs_claim c with (rowlock, updlock, forceseek) on c.token = convert(binary(16), i.token, 2)
option (force order, loop join, maxdop 1);
