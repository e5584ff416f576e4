-- Purpose: requeue rows that are dead only in the side table, with all their attempts.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: the keys of the rows that were dead.
-- Concurrency: claims skip dead rows, and a row that meanwhile is no longer dead, or is locked, stays as it is.
select v.value
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.dead = 1
and (exists (select 1 from {{.Table}} t where {{.KeyOfSide "convert(s.key using utf8mb4)"}} and {{.Open}})) is true
for update skip locked
-- then
update {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
set
    s.dead = 0,
    s.run_at = 0,
    s.excused = s.attempt
-- then
select {{.Member "k"}}
from {{.Batch}}
