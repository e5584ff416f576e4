-- Purpose: have all groups of a queue admitted anew after a limit or a rate changed.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: appends wake rows; admitting takes its own turn. Steps through the
--   index from one group to the next, for groups with blocked jobs and with places held.
with recursive blocked (group_key) as (
    select min(group_key)
    from dibs.job
    where queue = $1 and gate = 1
    union all
    select (
        select min(j.group_key)
        from dibs.job j
        where j.queue = $1 and j.gate = 1 and j.group_key > b.group_key
    )
    from blocked b
    where b.group_key is not null
)
insert into dibs.wake (queue, group_key)
select $1, group_key
from (
    select group_key from blocked where group_key is not null
    union
    select group_key from dibs.job where queue = $1 and gate in (0, 3) and group_key is not null
) g
