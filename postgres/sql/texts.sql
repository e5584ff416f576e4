-- Purpose: read the texts of all live jobs that must be JSON, for a check of them.
-- Parameters: none.
-- Columns out: id, payload, metadata.
-- Concurrency: one snapshot; reads everything and locks nothing.
select
    j.id,
    coalesce(j.payload, p.payload),
    coalesce(j.metadata, p.metadata)
from dibs.job j
left join dibs.payload p on j.payload is null and p.id = j.id
where j.payload is not null or p.payload is not null
