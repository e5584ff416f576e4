-- Purpose: leave jobs to later transactions, which look at their ends.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: appends a row, so it waits for nobody.
declare
  @ids nvarchar(max) = ?1;
insert into dibs_ended_list (ids)
values (@ids);
