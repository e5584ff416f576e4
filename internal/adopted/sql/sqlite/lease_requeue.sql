-- Purpose: requeue rows that are dead only in the side table, with all their attempts.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: the keys of the rows that were dead.
-- Concurrency: one statement in a write transaction.
update {{.Side}} as s
set
    dead = 0,
    run_at = 0,
    excused = attempt
where s.source = {{.Source}} and s.dead = 1
and s.key in (select v.value ->> 'k' from json_each({{param "batch"}}) v)
and exists (select 1 from {{.Table}} t where {{.KeyOfSide "s.key"}} and {{.Open}})
returning key
