-- Purpose: find jobs, leases, schedules and upkeep that somebody should look at.
-- Parameters: none.
-- Columns out: name of the finding; queue, schedule or what upkeep is late; id of a job; two
--   counts; age in microseconds; detail. The names:
--   dead: jobs that died in the last hour, by queue and last error: the newest, how many, of up to how
--     many that were read of the queue
--   leases: a running or waiting job whose leases have ended again and again: how often
--   cancel: a running job that somebody has cancelled, and since when it runs
--   late: upkeep that workers should have done
--   schedule: a schedule whose tick is over a minute late
--   awaited: jobs of a queue and a kind (detail) that others come after, and that no worker has: the first
--     of these others, how many they are, and the same again if there may be more
--   kept: ended jobs of a queue that should have been deleted for 10 minutes or more, and are kept for those
--     that come after them: the newest, how many, of up to how many that were read of each state
--   inbox: rows that stand in the inbox though the first came over a minute ago: how many, of up to how many that were read
-- Concurrency: plain reads, each of a snapshot of its own; locks nothing. Reads at most 1,000 dead jobs of a queue, where
--   there are many queues some fewer, 10,000 in all, 1,000 running ones, 2,000 ready ones, 10,000 wake rows, 100,000 rows of
--   the tally, 10,000 rows of the inbox, 200 followers of a queue and 1,000 in all with up to 3 jobs that each waits for, 100 ended jobs of a queue and
--   state that are past retention and about 3,000 in all, and 100 rows of ended_list with up to 10 jobs of each.
-- A loop over the queues, as a range in an index ends only at constants and variables, and not at columns of another table.
begin not atomic
  declare clock bigint default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)));
  declare queues int;
  declare queue_name varbinary(255);
  declare completed, dead, cancelled, keep bigint;
  declare nth int;
  declare state varbinary(16);
  declare batch longtext character set utf8mb4;
  declare waits int;
  declare most_waiting int default 0;
  declare deads longtext character set utf8mb4 default '';
  declare firsts longtext character set utf8mb4 default '';
  declare followers longtext character set utf8mb4 default '';
  declare pasts longtext character set utf8mb4 default '';
  declare dead_share int;
  declare first_share int;
  declare follower_share int;
  declare kept_share int;
  declare ended tinyint default 0;
  declare each_queue cursor for
    select q.name, q.keep_completed, q.keep_dead, q.keep_cancelled
    from dibs_queue q;
  declare continue handler for not found set ended = 1;
  select greatest(1, count(*)) into queues from dibs_queue;
  set dead_share = greatest(1, least(1000, 10000 div queues)), first_share = greatest(1, 2000 div queues);
  set follower_share = greatest(1, least(200, 1000 div queues)), kept_share = greatest(1, least(100, 1000 div queues));
  open each_queue;
  fetch each_queue into queue_name, completed, dead, cancelled;
  while not ended do
    select concat(',', group_concat(x.id)) into batch
    from (
      select d.id
      from dibs_finished d force index (by_time)
      where d.queue = queue_name and d.state = 'dead' and d.finished_at > clock - 3600000000
      order by d.finished_at desc
      limit dead_share
    ) x;
    set deads = concat(deads, coalesce(batch, ''));
    select concat(',', group_concat(x.id)) into batch
    from (
      select j.id
      from dibs_job j force index (lane)
      where j.queue = queue_name and j.gate = 0
      order by j.priority, j.run_at, j.id
      limit first_share
    ) x;
    set firsts = concat(firsts, coalesce(batch, ''));
    select concat(',', group_concat(x.id)), count(*) into batch, waits
    from (
      select j.id
      from dibs_job j force index (lane)
      where j.queue = queue_name and j.gate = 5
      limit follower_share
    ) x;
    set followers = concat(followers, coalesce(batch, '')), most_waiting = greatest(most_waiting, waits);
    set nth = 1;
    while nth <= 3 do
      set state = elt(nth, 'completed', 'dead', 'cancelled'), keep = elt(nth, completed, dead, cancelled), nth = nth + 1;
      select concat(',', group_concat(json_array(x.id, x.finished_at + keep))) into batch
      from (
        select f.id, f.finished_at
        from dibs_finished f force index (by_time)
        where f.queue = queue_name and f.state = state and f.finished_at < clock - 600000000 - keep
        order by f.finished_at, f.id
        limit kept_share
      ) x;
      set pasts = concat(pasts, coalesce(batch, ''));
    end while;
    fetch each_queue into queue_name, completed, dead, cancelled;
  end while;
  close each_queue;
  with ended as (
    select
      f.id,
      f.queue,
      f.finished_at,
      left(coalesce(if(json_valid(convert(f.errors using utf8mb4)), json_unquote(json_extract(convert(f.errors using utf8mb4), concat('$[', greatest(json_length(convert(f.errors using utf8mb4)), 1) - 1, '].error'))), ''), ''), 300) as error
    from json_table(concat('[', substr(deads, 2), ']'), '$[*]' columns (id bigint path '$')) i
    straight_join dibs_finished f force index (primary) on f.id = i.id
  ), claim as (
    select c.token, i.id
    from (
      select token, if(json_valid(convert(ids using utf8mb4)), convert(ids using utf8mb4), '[]') as ids
      from dibs_claim force index (by_check)
      order by check_at
      limit 1000
    ) c
    straight_join json_table(c.ids, '$[*]' columns (id bigint path '$')) i
    limit 1000
  ), running as (
    select j.id, j.queue, j.worker, j.errors, j.cancel_requested, j.claimed_at
    from claim c
    straight_join dibs_job j force index (primary) on j.id = c.id
    where j.token = c.token
  ), leases as (
    select
      l.id,
      l.queue,
      l.worker,
      if(json_valid(convert(l.errors using utf8mb4)), coalesce(json_length(json_search(convert(l.errors using utf8mb4), 'all', 'lease expired', null, '$[*].error')), 0), 0) as n
    from (
      select id, queue, worker, errors
      from running
      union all
      select j.id, j.queue, j.worker, j.errors
      from json_table(concat('[', substr(firsts, 2), ']'), '$[*]' columns (id bigint path '$')) i
      straight_join dibs_job j force index (primary) on j.id = i.id
      where j.gate = 0 and j.run_at <= clock and j.errors is not null
    ) l
  ), follower as (
    select i.id
    from json_table(concat('[', substr(followers, 2), ']'), '$[*]' columns (id bigint path '$')) i
    limit 1000
  ), awaited as (
    select p.queue, p.kind, min(w.child) as first, count(distinct w.child) as n
    from (
      select
        i.id as child,
        (select e.parent from dibs_edge e force index (open_edge) where e.child = i.id and e.stage = 1 order by e.parent limit 1) as parent
      from follower i
      union all
      select i.id, (select e.parent from dibs_edge e force index (open_edge) where e.child = i.id and e.stage = 1 order by e.parent limit 1 offset 1)
      from follower i
      union all
      select i.id, (select e.parent from dibs_edge e force index (open_edge) where e.child = i.id and e.stage = 1 order by e.parent limit 1 offset 2)
      from follower i
    ) w
    straight_join dibs_job p force index (primary) on p.id = w.parent
    where p.token is null
    group by p.queue, p.kind
  ), past as (
    select f.id, f.queue, f.followed, i.since
    from json_table(concat('[', substr(pasts, 2), ']'), '$[*]' columns (id bigint path '$[0]', since bigint path '$[1]')) i
    straight_join dibs_finished f force index (primary) on f.id = i.id
  ), late as (
    select 'claims' as what, count(distinct c.token) as n, min(c.check_at) as since
    from (
      select token, if(json_valid(convert(ids using utf8mb4)), convert(ids using utf8mb4), '[]') as ids, check_at
      from dibs_claim force index (by_check)
      where check_at < clock - 30000000
      order by check_at
      limit 100
    ) c
    straight_join json_table(c.ids, '$[*]' columns (id bigint path '$')) i
    straight_join dibs_job j force index (primary) on j.id = i.id
    where j.token = c.token
    union all
    select 'wake', count(*), null
    from (select 1 from dibs_wake limit 10000) w
    having count(*) = 10000
    union all
    select 'tally', count(*), null
    from (select 1 from dibs_tally limit 100000) t
    having count(*) = 100000
    union all
    select 'periods', 0, min(until) + 600000000
    from dibs_unique_window
    union all
    select 'history', count(*), min(since)
    from past
    where followed = 0
    union all
    select 'flows', count(*), min(l.at)
    from (
      select max(f.finished_at) as at
      from (
        select id, convert(ids using utf8mb4) as ids
        from dibs_ended_list
        order by id
        limit 100
      ) r
      straight_join json_table(r.ids, '$[*]' columns (nth for ordinality, id bigint path '$')) i
      straight_join dibs_finished f force index (primary) on f.id = i.id
      where i.nth <= 10
      group by r.id
    ) l
    where l.at < clock - 60000000
  )
  select 'dead', e.queue, max(e.id), count(*), dead_share, clock - max(e.finished_at), e.error
  from ended e
  group by e.queue, e.error
  union all
  select 'leases', l.queue, l.id, l.n, 0, 0, coalesce(l.worker, '')
  from leases l
  where l.n >= 3
  union all
  select 'cancel', r.queue, r.id, 0, 0, clock - r.claimed_at, coalesce(r.worker, '')
  from running r
  where r.cancel_requested and r.claimed_at < clock - 60000000
  union all
  select 'late', l.what, 0, l.n, 0, coalesce(clock - l.since, 0), ''
  from late l
  where l.n > 0 and l.since is null or l.since < clock
  union all
  select 'schedule', s.name, 0, 0, 0, clock - s.next_at, ''
  from dibs_schedule s
  where s.next_at < clock - 60000000
  union all
  select 'awaited', a.queue, a.first, a.n, case when most_waiting >= follower_share then a.n else 0 end, 0, a.kind
  from awaited a
  union all
  select 'kept', p.queue, max(p.id), count(*), kept_share, clock - min(p.since), ''
  from past p
  where p.followed
  group by p.queue
  union all
  select 'inbox', '', 0, count(*), 10000, timestampdiff(microsecond, min(i.inserted_at), current_timestamp(6)), ''
  from (
    select b.inserted_at
    from dibs_inbox b force index (primary)
    order by b.id
    limit 10000
  ) i
  having min(i.inserted_at) < current_timestamp(6) - interval 1 minute;
end
