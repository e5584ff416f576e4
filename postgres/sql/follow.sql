-- Purpose: have jobs that were just inserted wait for others, and mark those that others come after.
-- Parameters: $1 flow; then, arrays of equal length: $2 id, $3 whether the job waits for others, $4 whether others
--   come after it.
-- Columns out: none.
-- Concurrency: in the transaction that has inserted the jobs, which nobody else sees until it ends.
-- COPY inserts large batches as they are to be; this is for small ones and for those with unique keys.
with meant as materialized (
    select j.id, j.gate as old_gate, o.waits, o.followed
    from unnest($2::bigint[], $3::boolean[], $4::boolean[]) as o (id, waits, followed)
    join dibs.job j on j.id = any (array[o.id])
), changed as (
    update dibs.job j
    set
        flow = $1,
        followed = m.followed,
        gate = case when m.waits then 5 else j.gate end
    from meant m
    where j.id = any (array[m.id])
    returning j.queue, m.waits, m.old_gate
)
insert into dibs.tally (queue, waiting, blocked)
select queue, - count(*), count(*)
from changed
where waits and old_gate <> 1
group by queue
