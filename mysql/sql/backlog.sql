-- Purpose: count the blocked jobs of each group of a queue that has any.
-- Parameters: ?1 queue; ?2 name that those of the groups come after; ?3 how many groups;
--   ?4 how many jobs of each are counted.
-- Columns out: group; how many of its jobs hold a place; how many are blocked.
-- Concurrency: one snapshot for each group; locks nothing. It goes from group to group by the index of blocked jobs, whatever
--   their number.
begin not atomic
  declare group_name varbinary(255);
  declare nth int default 0;
  declare counts longtext character set utf8mb4;
  declare hits longtext character set utf8mb4 default '';
  select (
    select j.group_key
    from dibs_job j force index (place)
    where j.queue = ?1 and j.place = 1 and j.group_key > ?2
    order by j.group_key
    limit 1
  )
  into group_name;
  while group_name is not null and nth < ?3 do
    select
      json_array(
        convert(group_name using utf8mb4),
        (
          select count(*)
          from (
            select 1
            from dibs_job p force index (place)
            where p.queue = ?1 and p.place in (0, 3) and p.group_key = group_name
            limit ?4
          ) x
        ),
        (
          select count(*)
          from (
            select 1
            from dibs_job b force index (place)
            where b.queue = ?1 and b.place = 1 and b.group_key = group_name
            limit ?4
          ) x
        )
      ),
      (
        select j.group_key
        from dibs_job j force index (place)
        where j.queue = ?1 and j.place = 1 and j.group_key > group_name
        order by j.group_key
        limit 1
      )
    into counts, group_name;
    set hits = concat(hits, ',', counts), nth = nth + 1;
  end while;
  select i.name, i.places, i.blocked
  from json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (
    name varchar(255) character set utf8mb4 path '$[0]', places int path '$[1]', blocked int path '$[2]'
  )) i;
end
