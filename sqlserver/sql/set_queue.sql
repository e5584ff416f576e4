-- Purpose: change a queue's settings.
-- Parameters: ?1 the version that the change was made from; from ?2 on the settings, in the order
--   of queues.sql, durations in microseconds.
-- Columns out: none.
-- Concurrency: changes nothing if others have changed the settings since they were read, and so their version.
declare
  @version bigint = ?1,
  @name varbinary(255) = ?2,
  @paused tinyint = ?3,
  @concurrency int = ?4,
  @group_limit int = ?5,
  @strict tinyint = ?6,
  @claim_order varchar(16) = ?7,
  @lease bigint = ?8,
  @max_attempts int = ?9,
  @backoff_base bigint = ?10,
  @backoff_factor float = ?11,
  @backoff_max bigint = ?12,
  @backoff_jitter float = ?13,
  @keep_completed bigint = ?14,
  @keep_dead bigint = ?15,
  @keep_cancelled bigint = ?16,
  @payload_limit int = ?17,
  @rate_n int = ?18,
  @rate_per bigint = ?19,
  @rate_burst int = ?20,
  @job_timeout bigint = ?21,
  @group_rate_n int = ?22,
  @group_rate_per bigint = ?23,
  @group_rate_burst int = ?24;
set nocount off;
update dibs_queue
set
  version = version + 1,
  paused = @paused,
  concurrency = @concurrency,
  group_limit = @group_limit,
  strict = @strict,
  claim_order = @claim_order,
  lease = @lease,
  max_attempts = @max_attempts,
  backoff_base = @backoff_base,
  backoff_factor = @backoff_factor,
  backoff_max = @backoff_max,
  backoff_jitter = @backoff_jitter,
  keep_completed = @keep_completed,
  keep_dead = @keep_dead,
  keep_cancelled = @keep_cancelled,
  payload_limit = @payload_limit,
  rate_n = @rate_n,
  rate_per = @rate_per,
  rate_burst = @rate_burst,
  job_timeout = @job_timeout,
  group_rate_n = @group_rate_n,
  group_rate_per = @group_rate_per,
  group_rate_burst = @group_rate_burst,
  group_rates = case when @group_rate_n > 0 then 1 else group_rates end
where name = @name and version = @version;
