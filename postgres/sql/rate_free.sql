-- Purpose: reckon how many jobs a queue's rate lets start now, for the claim that follows in
--   the same transaction; the setting dibs_turn.free is that number.
-- Parameters: $1 queue; $2 step and $3 slack of its bucket in nanoseconds (package bucket).
-- Columns out: the number.
-- Concurrency: in the turn of turn_claim.sql, so no other claim starts jobs of the queue until
--   this transaction has ended. The claim comes later, when no fewer may start.
select set_config('dibs_turn.free', (
    select case when b.owed_ns > $3 then 0 else least((($3 - b.owed_ns) / $2) + 1, 1000000) end::text
    from (
        select greatest(least(coalesce((
            select full_ns
            from dibs.rate
            where queue = $1 and group_key = ''
        ), 0), t.clock_ns + $2::bigint + $3::bigint) - t.now_ns, 0) as owed_ns
        from (
            select
                (extract(epoch from statement_timestamp()) * 1000000)::bigint * 1000 as now_ns,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000 as clock_ns
        ) t
    ) b
), true)
