-- Purpose: give free places of groups to their first blocked jobs.
-- Parameters: ?1 queue, ?2 a JSON array of [group, how many, a JSON array of turns to take over, each [turn, admitted], or null in a queue
--   that is not fair, the turn after these, number of the admission].
-- Columns out: the group of each job.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
begin not atomic
  declare room int;
  declare found longtext default '';
  for g in (
    select i.name, i.room, i.turns, i.turn, i.admission
    from json_table(?2, '$[*]' columns (
      name varchar(255) character set utf8mb4 path '$[0]', room int path '$[1]', turns json path '$[2]',
      turn bigint path '$[3]', admission bigint path '$[4]'
    )) i
  ) do
    set room = g.room;
    select json_arrayagg(x.id) into @dibs_ids
    from (
      select
        j.id,
        (
          select l.id
          from dibs_job l force index (primary)
          where l.id = j.id and l.group_key = g.name and l.place = 1
          for update skip locked
        ) as locked
      from dibs_job j force index (place)
      where j.queue = ?1 and j.group_key = g.name and j.place = 1
      having locked is not null
      order by j.priority, j.run_at, j.id
      limit room
    ) x;
    if @dibs_ids is not null then
      update json_table(@dibs_ids, '$[*]' columns (nth for ordinality, id bigint path '$')) i
      straight_join dibs_job j force index (primary) on j.id = i.id
      set
        j.gate = 0,
        j.turn = case
          when g.turns is null then j.turn
          else coalesce(json_value(g.turns, concat('$[', i.nth - 1, '][0]')), g.turn + i.nth - 1 - json_length(g.turns))
        end,
        j.admitted = case
          when g.turns is null then j.admitted
          else coalesce(json_value(g.turns, concat('$[', i.nth - 1, '][1]')), g.admission)
        end;
      set found = concat(found, ',', substr(@dibs_ids, 2, length(@dibs_ids) - 2));
    end if;
  end for;
  select j.group_key
  from json_table(concat('[', substr(found, 2), ']'), '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job j force index (primary) on j.id = i.id;
end
