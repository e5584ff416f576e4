-- Purpose: read what jobs leave to those that their ends add.
-- Parameters: $1 ids; $2 how many followers are counted.
-- Columns out: id; flow, or the job's own id if it has none; how many jobs come after it, and not after its failure.
-- Concurrency: in the transaction that then writes the ends. What comes to follow a job later follows that job alone.
select
    i.id,
    coalesce((select j.flow from dibs.job j where j.id = i.id), i.id),
    (
        select count(*)
        from (
            select e.child
            from dibs.edge e
            where e.parent = i.id and e.need <> 'failed'
            limit $2
        ) f
    )
from unnest($1::bigint[]) as i (id)
