-- Purpose: write a worker's entry of the register.
-- Parameters: ?1 id, ?2 name, ?3 host, ?4 pid, ?5 version, ?6 queues and ?7 kinds, JSON
--   arrays, ?7 null for all, ?8 concurrency, ?9 state, ?10 now.
-- Columns out: none.
-- Concurrency: each worker writes its own row.
declare
  @id binary(16) = ?1,
  @name varbinary(255) = ?2,
  @host varbinary(255) = ?3,
  @pid bigint = ?4,
  @version varbinary(255) = ?5,
  @queues nvarchar(max) = ?6,
  @kinds nvarchar(max) = ?7,
  @concurrency int = ?8,
  @state varchar(16) = ?9,
  @now bigint = ?10;
update dibs_worker
set
  queues = @queues,
  kinds = @kinds,
  concurrency = @concurrency,
  state = @state,
  seen_at = @now
where id = @id;
if @@rowcount = 0
  insert into dibs_worker (id, name, host, pid, version, queues, kinds, concurrency, state, since, seen_at)
  values (@id, @name, @host, @pid, @version, @queues, @kinds, @concurrency, @state, @now, @now);
