-- Purpose: let rows be tried again that are dead by the side table alone, with all their attempts.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: the keys of those that were dead.
-- Concurrency: one statement. A claim passes over rows that are dead, and what is none any more is left as it is.
update {{.Side}} s
set
    dead = 0,
    run_at = 0,
    excused = s.attempt
from jsonb_array_elements({{param "batch"}}::jsonb) v
where s.source = {{.Source}} and s.key = (v->>'k')
and case when s.dead = 1 then true else false end -- as in change.sql
and (exists (select from {{.Table}} t where {{.KeyOfSide "(s.key::jsonb)"}} and {{.Open}})) is true -- which makes no join of it
returning s.key
