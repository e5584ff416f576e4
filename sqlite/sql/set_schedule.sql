-- Purpose: make a schedule or replace it.
-- Parameters: ?1 name, ?2 owner, ?3 settings, ?4 payload, ?5 metadata or null, ?6 paused,
--   ?7 since, ?8 next tick or null.
-- Columns out: none.
-- Concurrency: the old schedule was read in the same write transaction.
insert into dibs_schedule (name, owner, settings, payload, metadata, paused, since, next_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (name) do update
set
  owner = excluded.owner,
  settings = excluded.settings,
  payload = excluded.payload,
  metadata = excluded.metadata,
  paused = excluded.paused,
  since = excluded.since,
  next_at = excluded.next_at
