-- Purpose: take the turn to claim from a queue with a concurrency limit or a rate, until the
--   transaction ends; the setting dibs_turn.claim is true if it was got.
-- Parameters: $1 queue.
-- Columns out: 'true' or 'false'.
-- Concurrency: a claim under a limit counts running jobs and takes as many as are
--   missing, so only one claim may do so at a time. A claim without the turn does not
--   wait, it claims nothing. The lock also conflicts with the key share lock of claims
--   that began before the limit was set. The next statement counts, and its snapshot sees
--   all that earlier holders of the turn committed. A transaction with one snapshot would
--   not see that, so it does not get the turn.
select set_config('dibs_turn.claim', coalesce((
    select 'true'
    from dibs.turn
    where queue = $1 and current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
    for update skip locked
), 'false'), true)
