-- Purpose: extend leases in the side table.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token}; micros, the new length of the leases.
-- Columns out: the keys whose leases were extended.
-- Concurrency: skips leases that another transaction has locked.
with mine as materialized (
    select s.ctid as dibs_at
    from jsonb_array_elements({{param "batch"}}::jsonb) v
    join {{.Side}} s on s.source = {{.Source}} and s.key = (v->>'k')
    where case when s.token = (v->>'t') and s.lease_until > {{.Micros}} then true else false end -- as in change.sql
    for update of s skip locked
)
update {{.Side}} s
set lease_until = {{.Micros}} + {{param "micros"}}
where s.ctid = any (array(select dibs_at from mine))
returning s.key
