-- Purpose: forget claims none of whose jobs carries their token any more.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep, which has locked the claims (due_claims.sql).
delete c
from json_table(?1, '$[*]' columns (token varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_claim c force index (primary) on c.token = unhex(i.token)
