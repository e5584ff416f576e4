-- Purpose: have the sweep look at claims later: when the next of their leases end.
-- Parameters: ?1 a JSON array of objects: token in hexadecimal digits, and at, when to look.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep.
update dibs_claim
set check_at = l.at
from (
  select
    unhex(value ->> 'token') as token,
    value ->> 'at' as at
  from jsonb_each(?1)
) l
where dibs_claim.token = l.token
