-- Purpose: look at some live jobs, and find those that wait for nothing, or for a job that is not live among the first
--   100 that they wait for: an older program has ended it, or SQL by hand has deleted it.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: id; the job that is not live, or null.
-- Concurrency: in the transaction of the sweep, which then settles them.
begin not atomic
  declare job, gone bigint;
  declare open_edges int;
  declare hits longtext character set utf8mb4 default '';
  declare ended tinyint default 0;
  declare each_job cursor for
    select l.id
    from (
      select id, gate
      from dibs_job
      where id > ?1
      order by id
      limit ?2
    ) l
    where l.gate = 5 and not exists (select 1 from dibs_ended_list);
  declare continue handler for not found set ended = 1;
  open each_job;
  fetch each_job into job;
  while not ended do
    select
      (
        select e.parent
        from (
          select o.parent
          from dibs_edge o force index (open_edge)
          where o.child = job and o.stage = 1
          order by o.parent
          limit 100
        ) e
        where not exists (select 1 from dibs_job p where p.id = e.parent)
        limit 1
      ),
      exists (select 1 from dibs_edge e force index (open_edge) where e.child = job and e.stage = 1)
    into gone, open_edges;
    if gone is not null or not open_edges then
      set hits = concat(hits, ',', json_array(job, gone));
    end if;
    fetch each_job into job;
  end while;
  close each_job;
  select i.id, i.gone
  from json_table(concat('[', substr(hits, 2), ']'), '$[*]' columns (id bigint path '$[0]', gone bigint path '$[1]')) i;
end
