-- Purpose: find the claims whose leases the sweep must look at.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: token, ids as a JSON array.
-- Concurrency: it locks the claims, and passes over those that another sweep has locked.
select json_arrayagg(hex(x.token)) into @dibs_tokens
from (
  select
    c.token,
    (
      select l.token
      from dibs_claim l force index (primary)
      where l.token = c.token and l.check_at <= ?1
      for update skip locked
    ) as locked
  from dibs_claim c force index (by_check)
  where c.check_at <= ?1
  having locked is not null
  order by c.check_at
  limit ?2
) x
-- then
select
  c.token,
  c.ids
from json_table(@dibs_tokens, '$[*]' columns (token varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_claim c force index (primary) on c.token = unhex(i.token)
