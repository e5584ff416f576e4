-- Purpose: move the ends of leases.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token}; micros, from now on.
-- Columns out: the keys whose leases were moved.
-- Concurrency: leases that somebody else has locked are passed over.
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
