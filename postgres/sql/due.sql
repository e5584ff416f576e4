-- Purpose: move grouped jobs that have become due to their groups.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: in the turn of turn_admit.sql. Rows that an operator is just
--   changing are skipped: the change leaves them in gate 1 with a wake row, or in
--   gate 2 for the next time. A job without a group, which only SQL by hand can leave in this
--   gate, is put right by mend.sql.
with joined as (
    update dibs.job
    set gate = 1
    where current_setting('dibs_turn.admit', true) = 'true'
        and ctid = any (array(
            select ctid
            from dibs.job
            where queue = $1 and gate = 2 and run_at <= statement_timestamp()
            order by run_at
            limit 1000
            for no key update skip locked
        ))
    returning group_key
), woken as (
    insert into dibs.wake (queue, group_key)
    select distinct $1, group_key
    from joined
    where group_key is not null
)
insert into dibs.tally (queue, waiting, blocked)
select $1, - count(*), count(*)
from joined
having count(*) > 0
