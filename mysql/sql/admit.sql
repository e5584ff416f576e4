-- Purpose: give free places of groups to their first blocked jobs.
-- Parameters: ?1 queue, ?2 a JSON array of [group, how many, a JSON array of turns to take over, each [turn, admitted], or null in a queue
--   that is not fair, the turn after these, number of the admission].
-- Columns out: the group of each job.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
begin not atomic
  declare group_name varbinary(255);
  declare room int;
  declare turns, ids longtext character set utf8mb4;
  declare turn, admission bigint;
  declare hits longtext character set utf8mb4 default '';
  declare ended tinyint default 0;
  declare each_group cursor for
    select i.name, i.room, nullif(cast(i.turns as char character set utf8mb4), 'null'), i.turn, i.admission
    from json_table(?2, '$[*]' columns (
      name varchar(255) character set utf8mb4 path '$[0]', room int path '$[1]', turns json path '$[2]',
      turn bigint path '$[3]', admission bigint path '$[4]'
    )) i;
  declare continue handler for not found set ended = 1;
  open each_group;
  fetch each_group into group_name, room, turns, turn, admission;
  while not ended do
    select json_arrayagg(x.id) into ids
    from (
      select
        j.id,
        (
          select l.id
          from dibs_job l force index (primary)
          where l.id = j.id and l.group_key = group_name and l.place = 1
          for update skip locked
        ) as locked
      from dibs_job j force index (place)
      where j.queue = ?1 and j.group_key = group_name and j.place = 1
      having locked is not null
      order by j.priority, j.run_at, j.id
      limit room
    ) x;
    if ids is not null then
      update json_table(ids, '$[*]' columns (nth for ordinality, id bigint path '$')) i
      straight_join dibs_job j force index (primary) on j.id = i.id
      set
        j.gate = 0,
        j.turn = case
          when turns is null then j.turn
          else coalesce(json_unquote(json_extract(turns, concat('$[', i.nth - 1, '][0]'))), turn + i.nth - 1 - json_length(turns))
        end,
        j.admitted = case
          when turns is null then j.admitted
          else coalesce(json_unquote(json_extract(turns, concat('$[', i.nth - 1, '][1]'))), admission)
        end;
      set hits = concat(hits, ',', substr(ids, 2, length(ids) - 2));
    end if;
    fetch each_group into group_name, room, turns, turn, admission;
  end while;
  close each_group;
  select j.group_key
  from json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job j force index (primary) on j.id = i.id;
end
