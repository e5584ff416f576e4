-- Purpose: look at some live jobs, and find those that wait for nothing, or for a job that is not live among the first
--   100 that they wait for: an older program has ended it, or SQL by hand has deleted it.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: id; the job that is not live, or null.
-- Concurrency: in the transaction of the sweep, which then settles them.
begin not atomic
  declare bad longtext character set utf8mb4 default '';
  for looked in (
    select l.id
    from (
      select id, gate
      from dibs_job
      where id > ?1
      order by id
      limit ?2
    ) l
    where l.gate = 5 and not exists (select 1 from dibs_ended_list)
  ) do
    set bad = concat(bad, coalesce((
      select concat(',', json_array(looked.id, e.parent))
      from (
        select o.parent
        from dibs_edge o force index (open_edge)
        where o.child = looked.id and o.stage = 1
        order by o.parent
        limit 100
      ) e
      where not exists (select 1 from dibs_job p where p.id = e.parent)
      limit 1
    ), if(exists (select 1 from dibs_edge e force index (open_edge) where e.child = looked.id and e.stage = 1), '', concat(',', json_array(looked.id, null)))));
  end for;
  select i.id, i.gone
  from json_table(concat('[', substr(bad, 2), ']'), '$[*]' columns (id bigint path '$[0]', gone bigint path '$[1]')) i;
end
