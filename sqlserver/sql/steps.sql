-- Purpose: read what the attempts of a job have done.
-- Parameters: ?1 job; ?2 token, or null to read without one; ?3 now, 0 if the lease does not end.
-- Columns out: whether the lease holds, name, value; one row with nulls for a job without steps. The first step first.
-- Concurrency: one snapshot. A claim is made after the transaction has ended that wrote the last step of an earlier one,
--   so its holder sees all of them.
declare
  @job bigint = ?1,
  @token binary(16) = ?2,
  @now bigint = ?3;
select
  case when @token is null or exists (
    select 1
    from dibs_job j
    where j.id = @job and j.token = @token and j.lease_until > @now
  ) then 1 else 0 end,
  s.name,
  s.value
from (select 1 as one) o
left join dibs_step s on s.job = @job
order by s.id;
