-- Purpose: take the turn to claim from a queue with a concurrency limit, until the
--   transaction ends; the setting dibs_turn.claim says whether it was got.
-- Parameters: $1 queue.
-- Columns out: 'true' or 'false'.
-- Concurrency: a claim under a limit counts what runs and takes the rest, so only
--   one may be at it. Nobody waits: who does not get the lock finds nothing. It also
--   conflicts with the key share lock of claims that began before the limit was
--   set. Counting happens in the next statement, whose snapshot sees all that
--   earlier holders of the turn committed. With one snapshot for the whole
--   transaction it would not, and the turn is not given.
select set_config('dibs_turn.claim', coalesce((
    select 'true'
    from dibs.turn
    where queue = $1 and current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
    for update skip locked
), 'false'), true)
