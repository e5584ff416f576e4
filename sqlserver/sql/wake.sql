-- Purpose: ask for the places of groups to be given anew.
-- Parameters: ?1 a JSON array of pairs: queue, group; ?2 when that is to be done, at the earliest.
-- Columns out: none.
-- Concurrency: appends rows, so it waits for nobody.
declare
  @groups nvarchar(max) = ?1,
  @not_before bigint = ?2;
insert into dibs_wake (queue, group_key, not_before)
select convert(varbinary(255), convert(varchar(255), i.queue collate Latin1_General_100_BIN2_UTF8)), convert(varbinary(255), convert(varchar(255), i.group_key collate Latin1_General_100_BIN2_UTF8)), @not_before
from openjson(@groups) with (queue nvarchar(255) '$[0]', group_key nvarchar(255) '$[1]') i;
