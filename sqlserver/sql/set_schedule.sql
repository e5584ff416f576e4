-- Purpose: make a schedule or replace it.
-- Parameters: ?1 name, ?2 owner, ?3 settings, ?4 payload, ?5 metadata or null, ?6 paused,
--   ?7 since, ?8 next tick or null.
-- Columns out: none.
-- Concurrency: in the turn to change schedules.
declare
  @name varbinary(255) = ?1,
  @owner varbinary(255) = ?2,
  @settings nvarchar(max) = ?3,
  @payload nvarchar(max) = ?4,
  @metadata nvarchar(max) = ?5,
  @paused tinyint = ?6,
  @since bigint = ?7,
  @next_at bigint = ?8;
update dibs_schedule
set
  owner = @owner,
  settings = @settings,
  payload = @payload,
  metadata = @metadata,
  paused = @paused,
  since = @since,
  next_at = @next_at
where name = @name;
if @@rowcount = 0
  insert into dibs_schedule (name, owner, settings, payload, metadata, paused, since, next_at)
  values (@name, @owner, @settings, @payload, @metadata, @paused, @since, @next_at);
