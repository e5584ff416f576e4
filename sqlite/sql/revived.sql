-- Purpose: find the jobs that were cancelled because of some.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that puts them back.
select f.id
from json_each(?1) i
cross join dibs_finished f on f.cause = i.value
