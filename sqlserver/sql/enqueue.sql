-- Purpose: insert jobs.
-- Parameters: ?1 a JSON array of [place, and then the columns in the order of the insert]; ?2 the payload of a single job
--   without one in its element; ?3 the id of the first, or null to draw new ids; ?4 how many ids to draw.
-- Columns out: the id of the first job.
-- Concurrency: the key of a job that has one is locked (lock_keys.sql): found free, it is still free here. Ids are drawn
--   in a row, as an identity need not give the rows of one insert ids that follow each other.
-- The other databases have a statement for one job, and others made of it. Here one takes any number.
declare
  @jobs nvarchar(max) = ?1,
  @payload nvarchar(max) = ?2,
  @first bigint = ?3,
  @n bigint = ?4;
declare @drawn sql_variant;
if @first is null
begin
  exec sys.sp_sequence_get_range @sequence_name = N'dibs_job_id', @range_size = @n, @range_first_value = @drawn output;
  set @first = convert(bigint, @drawn);
end;
insert into dibs_job (
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  created_at,
  metadata,
  payload
)
select
  @first + i.nth,
  convert(varbinary(255), convert(varchar(255), i.queue collate Latin1_General_100_BIN2_UTF8)),
  convert(varbinary(255), convert(varchar(255), i.kind collate Latin1_General_100_BIN2_UTF8)),
  i.priority,
  i.run_at,
  i.gate,
  i.max_attempts,
  convert(varbinary(255), convert(varchar(255), i.group_key collate Latin1_General_100_BIN2_UTF8)),
  convert(varbinary(512), convert(varchar(512), i.unique_key collate Latin1_General_100_BIN2_UTF8)),
  i.unique_until,
  i.unique_held,
  i.created_at,
  i.metadata,
  coalesce(i.payload, @payload)
from openjson(@jobs) with (
  nth int '$[0]',
  queue nvarchar(255) '$[1]',
  kind nvarchar(255) '$[2]',
  priority smallint '$[3]',
  run_at bigint '$[4]',
  gate tinyint '$[5]',
  max_attempts int '$[6]',
  group_key nvarchar(255) '$[7]',
  unique_key nvarchar(512) '$[8]',
  unique_until varchar(16) '$[9]',
  unique_held bit '$[10]',
  created_at bigint '$[11]',
  metadata nvarchar(max) '$[12]',
  payload nvarchar(max) '$[13]'
) i;
select @first;
