-- Purpose: take the time of a call, in microseconds since 1970.
-- Parameters: none.
-- Columns out: now, and how far it is ahead of the system's clock.
-- Concurrency: the only write transaction of the file; each has a later time than the
--   one before, so a job that was enqueued first has the earlier run_at. If the system's
--   clock was put back, this time goes on from where it was, at half speed until the
--   clocks meet: if it stood still, no lease would end meanwhile. SQLite's clock counts
--   milliseconds as a real number, which is not exact, so they are rounded before they
--   become microseconds.
update dibs_clock
set
  now = max(now + 1, iif(system >= now, system, now + (system - seen) / 2)),
  seen = system
from (select cast(round(unixepoch('subsec') * 1000) as integer) * 1000 as system)
where one = 1
returning now, now - seen
