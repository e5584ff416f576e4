-- Purpose: count the jobs of some ids, whether or not others hold them.
-- Parameters: ?1 a JSON array of ids, ?2 whether to count finished jobs, else live ones.
-- Columns out: count.
-- Concurrency: a plain read, which waits for nobody. A job that has ended since it was looked for is not counted.
declare
  @ids nvarchar(max) = ?1,
  @ended tinyint = ?2;
select case
  when @ended = 1 then (
    select count(*)
    from openjson(@ids) with (id bigint '$') i
    join dibs_finished f on f.id = i.id
  )
  else (
    select count(*)
    from openjson(@ids) with (id bigint '$') i
    join dibs_job j on j.id = i.id
  )
end
option (loop join);
