-- Purpose: take the turn to claim from a queue with a concurrency limit, until the
--   transaction ends; the setting dibs_turn.claim says whether it was got.
-- Parameters: $1 queue.
-- Columns out: 'true', 'false', or 'isolation' if the transaction is not READ COMMITTED.
-- Concurrency: a claim under a limit counts what runs and takes the rest, so only
--   one may be at it. Nobody waits: who does not get the lock finds nothing. It also
--   conflicts with the key share lock of claims that began before the limit was
--   set. Counting happens in the next statement, whose snapshot sees all that
--   earlier holders of the turn committed; with one snapshot for the whole
--   transaction it would not, so such a claim is refused.
select set_config('dibs_turn.claim', case
    when current_setting('transaction_isolation') <> 'read committed' then 'isolation'
    else coalesce((
        select 'true'
        from dibs.turn
        where queue = $1
        for update skip locked
    ), 'false')
end, true)
