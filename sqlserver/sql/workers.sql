-- Purpose: list the register of workers.
-- Parameters: ?1 microseconds after which an unseen worker is lost.
-- Columns out: id, name, host, pid, version, queues, kinds or null for all, concurrency,
--   state, since, seen at.
-- Concurrency: a plain read.
declare
  @lost bigint = ?1;
select
  w.id,
  w.name,
  w.host,
  w.pid,
  w.version,
  w.queues,
  w.kinds,
  w.concurrency,
  case when w.seen_at < datediff_big(microsecond, '19700101', sysutcdatetime()) - @lost then 'lost' else w.state end,
  w.since,
  w.seen_at
from dibs_worker w
order by w.name, w.since, w.id;
