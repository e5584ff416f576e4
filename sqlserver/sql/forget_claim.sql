-- Purpose: forget claims none of whose jobs carries their token any more.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep, which has locked the claims (due_claims.sql).
declare
  @tokens nvarchar(max) = ?1;
delete from c
from openjson(@tokens) with (token varchar(32) '$') i
join dibs_claim c with (rowlock, updlock, forceseek) on c.token = convert(binary(16), i.token, 2)
option (force order, loop join, maxdop 1);
