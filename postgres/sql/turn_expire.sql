-- Purpose: lock claims with leases that may have ended; the setting dibs_turn.expire
--   lists their tokens until the transaction ends.
-- Parameters: $1 how many at most.
-- Columns out: how many.
-- Concurrency: locked claims are skipped, so several processes can sweep.
with due as materialized (
    select token
    from dibs.claim
    where check_at <= statement_timestamp()
    order by check_at
    limit $1
    for update skip locked
)
select count(*), set_config('dibs_turn.expire', coalesce(string_agg(token::text, ','), ''), true)
from due
