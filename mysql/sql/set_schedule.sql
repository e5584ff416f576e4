-- Purpose: make a schedule or replace it.
-- Parameters: ?1 name, ?2 owner, ?3 settings, ?4 payload, ?5 metadata or null, ?6 paused,
--   ?7 since, ?8 next tick or null.
-- Columns out: none.
-- Concurrency: in the turn to change schedules.
insert into dibs_schedule (name, owner, settings, payload, metadata, paused, since, next_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on duplicate key update
  owner = values(owner),
  settings = values(settings),
  payload = values(payload),
  metadata = values(metadata),
  paused = values(paused),
  since = values(since),
  next_at = values(next_at)
