-- Purpose: list the register of workers.
-- Parameters: ?1 microseconds after which an unseen worker is lost.
-- Columns out: id, name, host, pid, version, queues, kinds or null for all, concurrency,
--   state, since, seen at.
-- Concurrency: a plain read.
select
  w.id,
  w.name,
  w.host,
  w.pid,
  w.version,
  w.queues,
  w.kinds,
  w.concurrency,
  iif(w.seen_at < max(c.now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000) - ?1, 'lost', w.state),
  w.since,
  w.seen_at
from dibs_worker w
cross join dibs_clock c
order by w.name, w.since, w.id
