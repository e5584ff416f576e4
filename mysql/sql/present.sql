-- Purpose: count the jobs of some ids, whether or not others hold them.
-- Parameters: ?1 a JSON array of ids, ?2 whether to count finished jobs, else live ones.
-- Columns out: count.
-- Concurrency: a plain read, which waits for nobody. A job that has ended since it was looked for is not counted.
select case
  when ?2 then (
    select count(*)
    from json_table(?1, '$[*]' columns (id bigint path '$')) i
    straight_join dibs_finished f force index (primary) on f.id = i.id
  )
  else (
    select count(*)
    from json_table(?1, '$[*]' columns (id bigint path '$')) i
    straight_join dibs_job j force index (primary) on j.id = i.id
  )
end
