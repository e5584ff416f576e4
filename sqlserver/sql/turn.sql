-- Purpose: take a turn until the transaction ends.
-- Parameters: ?1 name of the turn, ?2 'Exclusive' to have it alone, or 'Shared'.
-- Columns out: 1 if it is taken.
-- Concurrency: it never waits. The lock is none of a row: an exclusive lock of a row would not stop those who read it.
declare
  @resource nvarchar(255) = ?1,
  @mode varchar(16) = ?2;
declare @got int;
exec @got = sys.sp_getapplock
  @Resource = @resource,
  @LockMode = @mode,
  @LockOwner = 'Transaction',
  @LockTimeout = 0;
select case when @got >= 0 then 1 else 0 end;
