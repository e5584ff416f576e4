-- Purpose: forget claims none of whose jobs carries their token any more.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep.
delete from dibs_claim
where token in (select unhex(value) from json_each(?1))
