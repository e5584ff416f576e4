-- Purpose: count the starts of a claim towards the rates of its queue and of its jobs' groups.
-- Parameters: $1 queue, $2 token of the claim that has just run in the same transaction; $3 step
--   and $4 slack of the queue's bucket in nanoseconds; step 0: it has no rate; $5 version of the
--   settings that say so.
-- Columns out: in how many microseconds jobs may start that the rates hold up now; null: none
--   is known.
-- Concurrency: in the turn of turn_claim.sql if the queue has a rate, so nobody else changes its
--   row. If the row owes more than a whole filling, as after a slower rate or a clock that was
--   ahead, the rest is dropped, even if no job was claimed. A claim under an older rate, which has
--   claimed nothing, drops nothing: a faster rate has a smaller filling. For groups it appends a
--   row, which waits for nobody; admit.sql reads it.
with taken as materialized (
    select j.group_key, j.claimed_at
    from dibs.claim c, unnest(c.ids) as i (id), dibs.job j
    where c.token = $2 and j.id = any (array[i.id])
), spent as (
    insert into dibs.rate (queue, group_key, full_ns, not_before)
    select
        $1,
        '',
        t.at_ns + b.owed_ns,
        to_timestamp(0) + (((t.at_ns + greatest(b.owed_ns - $4, 0) + 999) / 1000) * interval '1 microsecond')
    from (
        select
            (extract(epoch from coalesce(max(claimed_at), statement_timestamp())) * 1000000)::bigint * 1000 as at_ns,
            (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000 as clock_ns,
            count(*) as n
        from taken
    ) t
    left join dibs.rate r on r.queue = $1 and r.group_key = '',
        lateral (
            select (t.n * $3::bigint) + greatest(least(coalesce(r.full_ns, 0), t.clock_ns + $3::bigint + $4::bigint) - t.at_ns, 0) as owed_ns
        ) b
    where $3 > 0 and (t.n > 0 or (r.full_ns - t.clock_ns) > ($3::bigint + $4::bigint) and exists (
        select
        from dibs.queue q
        where q.name = $1 and q.version = $5
    ))
    on conflict (queue, group_key) do update
    set full_ns = excluded.full_ns, not_before = excluded.not_before
    returning not_before
), begun as (
    insert into dibs.start (queue, at_ns, groups)
    select $1, (extract(epoch from max(t.claimed_at)) * 1000000)::bigint * 1000, array_agg(t.group_key)
    from taken t
    where t.group_key is not null and exists (
        select
        from dibs.rate r
        where r.queue = $1 and r.group_key = t.group_key
        offset 0
    )
    having count(*) > 0
)
select (extract(epoch from least(
    case when $3 > 0 then coalesce((select not_before from spent), (
        select not_before
        from dibs.rate
        where queue = $1 and group_key = '' and not_before > statement_timestamp()
    )) end,
    (select min(held_until) from dibs.rate where queue = $1)
) - statement_timestamp()) * 1000000)::bigint
