-- Purpose: list the register of workers.
-- Parameters: $1 microseconds after which an unseen worker is lost.
-- Columns out: id, name, host, pid, version, queues, kinds or null for all, concurrency,
--   state, since, seen at.
-- Concurrency: a plain read.
select
    id,
    name,
    host,
    pid,
    version,
    to_jsonb(queues),
    to_jsonb(kinds),
    concurrency,
    case when seen_at < (statement_timestamp() - ($1::bigint * interval '1 microsecond')) then 'lost' else state end,
    since,
    seen_at
from dibs.worker
order by name, since, id
