-- Purpose: requeue rows that are dead only in the side table, with all their attempts.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: the keys of the rows that were dead.
-- Concurrency: one statement. Claims skip dead rows, and a row that meanwhile is no longer dead stays as it is.
update {{.Side}} s
set
    dead = 0,
    run_at = 0,
    excused = s.attempt
from jsonb_array_elements({{param "batch"}}::jsonb) v
where s.source = {{.Source}} and s.key = (v->>'k')
and case when s.dead = 1 then true else false end -- as in change.sql
and (exists (select from {{.Table}} t where {{.KeyOfSide "(s.key::jsonb)"}} and {{.Open}})) is true -- "is true" keeps the planner from a join
returning s.key
